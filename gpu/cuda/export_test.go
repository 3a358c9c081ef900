package cuda

import "understudy/gpu"

// Replays is how many lists ran as a graph, and how many graphs are kept.
func (d *Device) Replays() (replays, kept int) {
	_ = d.thread.do(func() error {
		replays, kept = d.thread.graphs.replays, len(d.thread.graphs.kept)
		return nil
	})
	return replays, kept
}

// CheckOnes makes the plan of one product of rows with a weight (n,k), as MatMul, MatMulBackX and
// MatMulBackW ask for it, and checks it on ones, with results in float32 and of the factors' kind; false where there
// is no memory for that.
func (d *Device) CheckOnes(rows, n, k int, kind gpu.DType) (done bool, err error) {
	for _, s := range []shape{
		{transA: true, m: n, n: rows, k: k, kind: kind, alignment: grain},
		{transA: true, m: n, n: rows, k: k, kind: kind, out: kind, alignment: grain},
		{m: k, n: rows, k: n, kind: kind, alignment: grain},
		{m: k, n: rows, k: n, kind: kind, out: kind, alignment: grain},
		{transB: true, m: k, n: n, k: rows, kind: kind, alignment: grain},
	} {
		i, err := d.newPlan(s)
		if err != nil || i == unchecked {
			return false, err
		}
	}
	return true, nil
}

// Kernels are the names of all kernels in this build.
func Kernels() []string {
	var names []string
	for _, file := range kernelFiles() {
		names = append(names, file.entries()...)
	}
	return names
}

// Taken is the bytes of the arena that are in use.
func (d *Device) Taken() (sum int64) {
	for _, t := range d.arena.taken {
		sum += t.bytes
	}
	return sum
}

// HasNVRTC says whether NVIDIA's compiler is on this machine.
func HasNVRTC() bool {
	_, err := openNVRTC(nil)
	return err == nil
}

// Compile gives the names of the kernels that NVIDIA's compiler makes of the sources in a folder.
func Compile(folder, architecture string) (names []string, err error) {
	files, err := compileSources(folder, architecture, nil)
	for _, file := range files {
		names = append(names, file.entries()...)
	}
	return names, err
}

// Waiting are the kernels of the list that has not gone to the thread yet.
func (d *Device) Waiting() (names []string) {
	for i := range d.list {
		for name, fn := range d.kernels {
			if d.list[i].kind == launching && d.list[i].fn == fn {
				names = append(names, name)
			}
		}
	}
	return names
}

// Idle is what can still be had of Options.Memory.
func (d *Device) Idle() int64 {
	idle := d.Memory - d.arena.size
	for _, r := range d.arena.regions {
		for _, s := range r.free {
			idle += s.bytes
		}
	}
	return idle
}
