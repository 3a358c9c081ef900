package cuda

import (
	"embed"
	"regexp"
)

//go:embed kernels
var kernelFS embed.FS

// kernelFile is the PTX of one family of kernels.
type kernelFile struct{ name, text string }

// kernelFiles are those that this build carries.
func kernelFiles() []kernelFile {
	entries, err := kernelFS.ReadDir("kernels")
	if err != nil {
		panic(err) // they are in the binary
	}
	var list []kernelFile
	for _, e := range entries {
		if !isPTX.MatchString(e.Name()) {
			continue
		}
		text, err := kernelFS.ReadFile("kernels/" + e.Name())
		if err != nil {
			panic(err)
		}
		list = append(list, kernelFile{e.Name(), string(text)})
	}
	return list
}

var (
	isPTX    = regexp.MustCompile(`\.ptx$`)
	isKernel = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)
)

// entries are the names of the kernels in the file.
func (f kernelFile) entries() []string {
	var names []string
	for _, m := range isKernel.FindAllStringSubmatch(f.text, -1) {
		names = append(names, m[1])
	}
	return names
}
