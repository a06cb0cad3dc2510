package main

import "io/fs"

// servicePage has the files of the service's page; nil where there is none, and the explorer is
// at the root then.
var servicePage fs.FS
