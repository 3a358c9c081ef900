// Command sbom writes a software bill of materials of what is linked into
// cmd/understudy to stdout: CycloneDX 1.6 JSON, from the packages that Go builds
// and the digests of go.sum. It needs no network, and equal sources give equal
// bytes: no serial number and no time.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	sums, err := os.ReadFile("go.sum")
	if err == nil {
		err = write(os.Stdout, sums)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// module is one of `go list`'s.
type module struct {
	Path, Version string
	Main          bool
	Replace       *module
}

// component is a module as CycloneDX describes it.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	URL        string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func write(out io.Writer, sums []byte) error {
	modules, err := linked()
	if err != nil {
		return err
	}
	known := digests(sums)
	main := component{Type: "application", Ref: "understudy", Name: "understudy"}
	var all []component
	for _, m := range modules {
		if m.Main {
			continue
		}
		digest, ok := known[m.Path+" "+m.Version]
		if !ok {
			return fmt.Errorf("go.sum has no digest of %s %s; run go mod download", m.Path, m.Version)
		}
		url := "pkg:golang/" + m.Path + "@" + m.Version
		all = append(all, component{"library", url, m.Path, m.Version, url, []property{{"go.sum:h1", digest}}})
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": map[string]any{"component": main}, "components": all,
	})
}

// linked lists the modules whose packages are in the binary, by path.
func linked() ([]module, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/understudy") //nolint:noctx // a tool of seconds
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	found := map[string]module{}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var p struct{ Module *module }
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		if m := p.Module; m != nil {
			if m.Replace != nil {
				m = m.Replace
			}
			found[m.Path] = *m
		}
	}
	var all []module
	for _, m := range found {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

// digests are the h1 sums of go.sum, by "path version".
func digests(sums []byte) map[string]string {
	all := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(sums)); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && !strings.HasSuffix(fields[1], "/go.mod") { //nolint:mnd // path, version, digest
			all[fields[0]+" "+fields[1]] = fields[2]
		}
	}
	return all
}
