package envace_test

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each of the ten traps of facts/envace.md, section 6, is a test by its name.
func TestEveryTrapIsATest(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`(?m)^func [tT]estTrap(\d\d)(?:And(\d\d))?`)
	found := map[string]int{}
	for _, folder := range []string{".", "../audit"} {
		root := os.DirFS(folder)
		err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(root, path)
			for _, match := range name.FindAllStringSubmatch(string(text), -1) {
				found[match[1]]++
				found[match[2]]++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for trap := 1; trap <= 10; trap++ {
		if found[fmt.Sprintf("%02d", trap)] == 0 {
			t.Errorf("trap %d has no test", trap)
		}
	}
}
