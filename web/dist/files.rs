// Written by web/build.mjs.
[
    embedded!("/app-A7RIQFCS.js", "app-A7RIQFCS.js", "text/javascript; charset=utf-8", "3c39833e735752e6"),
    embedded!("/app-IN3PQWHD.css", "app-IN3PQWHD.css", "text/css; charset=utf-8", "b80287e4d769e24f"),
    embedded!("/chunk-OOJM4CTU.js", "chunk-OOJM4CTU.js", "text/javascript; charset=utf-8", "9dbaaa1b267ebd74"),
    embedded!("/highlight-OH5R6ZD3.js", "highlight-OH5R6ZD3.js", "text/javascript; charset=utf-8", "194bc355e7147fa8"),
    embedded!("/icon-FC559B4D.svg", "icon-FC559B4D.svg", "image/svg+xml", "fc559b4d7a18d37e"),
    embedded!("/", "index.html", "text/html; charset=utf-8", "b7257ca547d79824"),
    embedded!("/licences.txt", "licences.txt", "text/plain; charset=utf-8", "d15f908bdff3c0fb"),
]
