package service

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"weft/service/page"
)

var (
	inline  = regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:|<script>`)
	imports = regexp.MustCompile(`(?m)^(?:import|export) .*from "\./([a-z]+\.js)"|^} from "\./([a-z]+\.js)"`)
	loaded  = regexp.MustCompile(`(?:src|href)="([^"#/:]+\.[a-z]+)"`)
)

// Every file that the page names is served, nothing is inline, nothing is from elsewhere, and the
// policy of the answers allows no more.
func TestPageFiles(t *testing.T) {
	files := page.Files()
	s := New(Options{Store: struct{ Store }{}, Release: openRelease(t, "wan21_t2v", ""), Page: files, Explorer: http.NotFoundHandler(), ExplorerModel: "a model"})
	types := map[string]string{".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", "": "text/html"}
	visit := []string{""}
	for i := 0; i < len(visit); i++ {
		name := visit[i]
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/"+name, nil)
		r.Host = "localhost"
		s.Handler().ServeHTTP(w, r)
		text := w.Body.String()
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), types[path.Ext(name)]) || w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("/%s: %d %v", name, w.Code, w.Header())
		}
		if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), "://") {
			t.Errorf("/%s names another place", name)
		}
		if found := inline.FindString(text); name == "" && found != "" {
			t.Errorf("/%s has %q, which the policy forbids", name, found)
		}
		matches := loaded.FindAllStringSubmatch(text, -1)
		if path.Ext(name) == ".js" {
			matches = imports.FindAllStringSubmatch(text, -1)
		}
		for _, m := range matches {
			if next := strings.Join(m[1:], ""); !slices.Contains(visit, next) {
				visit = append(visit, next)
			}
		}
		for n, line := range strings.Split(text, "\n") {
			if got := utf8.RuneCountInString(line); got > 110 && path.Ext(name) != ".svg" {
				t.Errorf("%s:%d has %d characters", name, n+1, got)
			}
		}
	}
	own, err := filepath.Glob("page/files/*")
	if err != nil || len(own) == 0 {
		t.Fatal(own, err)
	}
	for _, name := range own {
		if name = filepath.Base(name); name != "index.html" && !slices.Contains(visit, name) {
			t.Errorf("nothing uses %s", name)
		}
	}
	if len(visit) < 15 {
		t.Errorf("only %v", visit)
	}
	if u, err := url.Parse(s.model.Explorer); err != nil || u.Path != ExplorerPath || u.Query().Get("model") != "a model" || u.Query().Get("size") == "" {
		t.Errorf("the explorer is at %q", s.model.Explorer)
	}
}
