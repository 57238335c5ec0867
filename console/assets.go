package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

// dist is the page as `make console` built it from app. It is committed, so that the program
// is built without Node.
//
//go:embed dist
var dist embed.FS

// asset is a file of the page.
type asset struct{ plain, zipped []byte }

// assets returns the files of the page, compressed once.
var assets = sync.OnceValue(func() map[string]asset {
	all := make(map[string]asset)
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		var zipped bytes.Buffer
		z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := z.Write(b); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		all[strings.TrimPrefix(name, "dist/")] = asset{b, zipped.Bytes()}
		return nil
	})
	if err != nil { // the files are in the program
		panic(err)
	}
	return all
})

// page serves a file of the page. Names of files other than the first contain their hash.
func (c *Console) page(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, http.StatusMethodNotAllowed, "This path takes no other method than GET.")
		return
	}
	name := r.URL.Path
	if name == "" {
		name = "index.html"
	}
	file, ok := assets()[name]
	if !ok {
		fail(w, http.StatusNotFound, "There is no such file.")
		return
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	content := file.plain
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		content = file.zipped
	}
	if r.Method == http.MethodHead {
		return
	}
	_, _ = io.Copy(w, bytes.NewReader(content)) // the browser has gone, if this fails
}
