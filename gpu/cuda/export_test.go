package cuda

// Replays is how many lists ran as a graph, and how many graphs are kept.
func (d *Device) Replays() (replays, kept int) {
	_ = d.thread.do(func() error {
		replays, kept = d.thread.graphs.replays, len(d.thread.graphs.kept)
		return nil
	})
	return replays, kept
}

// Launched are the kernels that d has been asked for, and Kernels all that there are.
func (d *Device) Kernels() []string {
	var names []string
	for name := range d.kernels {
		names = append(names, name)
	}
	return names
}
