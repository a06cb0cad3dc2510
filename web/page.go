package web

import (
	"embed"
	"io/fs"
	"net/http"

	"weft/fault"
)

//go:embed page
var files embed.FS

// servePage makes the handler of the page's files. The address holds the state of the
// page, but only the page itself reads it.
func (s *Server) servePage() http.Handler {
	root := PageFiles()
	serve := http.FileServerFS(root)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[1:]
		if name == "" {
			name = "index.html"
		}
		if info, err := fs.Stat(root, name); err != nil || info.IsDir() || r.URL.Path == "/index.html" {
			writeError(w, fault.New(ErrNotFound, nil, "%s: nothing is here; the page is at /", r.URL.Path))
			return
		}
		serve.ServeHTTP(w, r)
	})
}

// PageFiles has the files of the explorer's page, of which the video service's page uses some.
func PageFiles() fs.FS {
	root, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // page is embedded
	}
	return root
}
