// Written by web/build.mjs.
[
    embedded!("/app-GL5QRWZH.js", "app-GL5QRWZH.js", "text/javascript; charset=utf-8", "e4f75bdc6d947b21"),
    embedded!("/app-X6GAIYF3.css", "app-X6GAIYF3.css", "text/css; charset=utf-8", "40c0115b9f04901e"),
    embedded!("/chunk-OOJM4CTU.js", "chunk-OOJM4CTU.js", "text/javascript; charset=utf-8", "9dbaaa1b267ebd74"),
    embedded!("/highlight-OH5R6ZD3.js", "highlight-OH5R6ZD3.js", "text/javascript; charset=utf-8", "194bc355e7147fa8"),
    embedded!("/icon-FC559B4D.svg", "icon-FC559B4D.svg", "image/svg+xml", "fc559b4d7a18d37e"),
    embedded!("/", "index.html", "text/html; charset=utf-8", "299b5a06b4776b86"),
    embedded!("/licences.txt", "licences.txt", "text/plain; charset=utf-8", "d15f908bdff3c0fb"),
]
