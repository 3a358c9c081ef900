package host

import (
	"sync"
	"sync/atomic"
)

// pool is a fixed set of goroutines, the caller of run among them. The program has one for
// each device, so that two layers of parallel loops cannot ask for more threads than there
// are.
type pool struct {
	workers []*worker
	jobs    chan *job
	closing sync.Once
	running sync.WaitGroup
}

// worker is what one goroutine of a pool owns: memory that outlives a task.
type worker struct {
	scratch [scratches][]float32
}

// The scratch buffers of a worker, one name for each use.
const (
	scratchA = iota // packed block of A
	scratchB        // packed block of B
	scratchC        // a tile that reaches over the edge of C
	scratchQ
	scratchK
	scratchV
	scratchS
	scratchO
	scratchG
	scratchDK
	scratchDV
	scratches
)

// floats is scratch buffer i with n elements of any content.
func (w *worker) floats(i, n int) []float32 {
	if cap(w.scratch[i]) < n {
		w.scratch[i] = make([]float32, n)
	}
	return w.scratch[i][:n]
}

type job struct {
	tasks int64
	next  atomic.Int64
	do    func(w *worker, task int)
	done  sync.WaitGroup
}

func newPool(threads int) *pool {
	p := &pool{jobs: make(chan *job, threads)}
	for i := range threads {
		w := &worker{}
		p.workers = append(p.workers, w)
		if i == 0 {
			continue // the caller's
		}
		p.running.Go(func() {
			for j := range p.jobs {
				j.work(w)
				j.done.Done()
			}
		})
	}
	return p
}

func (j *job) work(w *worker) {
	for task := j.next.Add(1) - 1; task < j.tasks; task = j.next.Add(1) - 1 {
		j.do(w, int(task))
	}
}

// run does every task once, in any order and on any worker, and returns when all are done.
// What a task computes must therefore not depend on its worker.
func (p *pool) run(tasks int, do func(w *worker, task int)) {
	helpers := min(len(p.workers), tasks) - 1
	if helpers <= 0 {
		for task := range tasks {
			do(p.workers[0], task)
		}
		return
	}
	j := &job{tasks: int64(tasks), do: do}
	j.done.Add(helpers)
	for range helpers {
		p.jobs <- j
	}
	j.work(p.workers[0])
	j.done.Wait()
}

// close ends the goroutines.
func (p *pool) close() {
	p.closing.Do(func() { close(p.jobs) })
	p.running.Wait()
}
