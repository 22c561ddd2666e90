// Written by web/build.mjs.
[
    embedded!("/app-AXKKLUQN.js", "app-AXKKLUQN.js", "text/javascript; charset=utf-8", "c65fd2da682b4162"),
    embedded!("/app-YITV3XGA.css", "app-YITV3XGA.css", "text/css; charset=utf-8", "3eb6e4c1f218d580"),
    embedded!("/chunk-OOJM4CTU.js", "chunk-OOJM4CTU.js", "text/javascript; charset=utf-8", "9dbaaa1b267ebd74"),
    embedded!("/highlight-OH5R6ZD3.js", "highlight-OH5R6ZD3.js", "text/javascript; charset=utf-8", "194bc355e7147fa8"),
    embedded!("/icon-FC559B4D.svg", "icon-FC559B4D.svg", "image/svg+xml", "fc559b4d7a18d37e"),
    embedded!("/", "index.html", "text/html; charset=utf-8", "9433142a03384695"),
    embedded!("/licences.txt", "licences.txt", "text/plain; charset=utf-8", "d15f908bdff3c0fb"),
]
