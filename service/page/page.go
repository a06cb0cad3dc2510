// Package page has the files of the video service's page: a form that follows what the model
// takes, the queue, and the videos that were made. They are plain modules, styles and one document;
// nothing is built and nothing comes from elsewhere.
//
// videos.js keeps what is known of the videos, and stream.js keeps it true: each event and each
// answer has a whole video with its revision, the larger one is newer, and each time that the
// stream of events opens the whole state is asked for too. form.js, queue.js and gallery.js show
// it; main.js joins them. What the plan explorer's page has too is taken from there.
package page

import (
	"embed"
	"io/fs"
	"slices"

	"weft/web"
)

//go:embed files
var embedded embed.FS

// shared are the files that are the explorer's too.
var shared = []string{"base.css", "boot.js", "dom.js", "icon.svg"}

// Files has the page's files, with index.html at the root.
func Files() fs.FS {
	own, err := fs.Sub(embedded, "files")
	if err != nil {
		panic(err) // they are embedded
	}
	return joined{own, web.PageFiles()}
}

// joined has the page's own files and those that it shares.
type joined struct{ own, explorer fs.FS }

// Open opens a file. Error: fs.ErrNotExist.
func (j joined) Open(name string) (fs.File, error) {
	if slices.Contains(shared, name) {
		return j.explorer.Open(name)
	}
	return j.own.Open(name)
}
