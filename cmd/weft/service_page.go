package main

import "weft/service/page"

// servicePage has the files of the service's page.
var servicePage = page.Files()
