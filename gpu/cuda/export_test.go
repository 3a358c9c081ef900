package cuda

// Replays is how many lists ran as a graph, and how many graphs are kept.
func (d *Device) Replays() (replays, kept int) {
	_ = d.thread.do(func() error {
		replays, kept = d.thread.graphs.replays, len(d.thread.graphs.kept)
		return nil
	})
	return replays, kept
}

// Kernels are the names of all kernels in this build.
func Kernels() []string {
	var names []string
	for _, file := range kernelFiles() {
		names = append(names, file.entries()...)
	}
	return names
}
