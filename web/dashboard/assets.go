package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/gin-gonic/gin"
)

//go:embed assets
var assetFiles embed.FS

// assets are the style sheet, the script and the icon, under names that change
// with their content, so that browsers keep them for good.
type assets struct {
	names map[string]string // name -> name with digest
	files map[string]asset  // by name with digest
}

type asset struct {
	kind          string
	plain, zipped []byte
}

func newAssets() (*assets, error) {
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		return nil, fmt.Errorf("read assets: %w", err)
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	a := &assets{names: map[string]string{}, files: map[string]asset{}}
	for _, entry := range entries {
		content, err := assetFiles.ReadFile("assets/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read assets: %w", err)
		}
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		if _, err := w.Write(content); err != nil {
			return nil, fmt.Errorf("compress %s: %w", entry.Name(), err)
		}
		if err := w.Close(); err != nil {
			return nil, fmt.Errorf("compress %s: %w", entry.Name(), err)
		}
		sum := sha256.Sum256(content)
		ext := path.Ext(entry.Name())
		name := strings.TrimSuffix(entry.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		a.names[entry.Name()] = name
		a.files[name] = asset{kinds[ext], content, zipped.Bytes()}
	}
	return a, nil
}

// URL is where a browser finds an asset.
func (a *assets) URL(name string) string { return "/assets/" + a.names[name] }

func (a *assets) serve(c *gin.Context) {
	file, ok := a.files[c.Param("file")]
	if !ok {
		c.Status(http.StatusNotFound)
		return
	}
	h := c.Writer.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept-Encoding")
	content := file.plain
	if strings.Contains(c.GetHeader("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		content = file.zipped
	}
	c.Data(http.StatusOK, file.kind, content)
}
