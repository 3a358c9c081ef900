package host

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// pool is a fixed set of goroutines, the caller of run among them. The program has one for
// each device, so that two layers of parallel loops cannot ask for more threads than there
// are.
type pool struct {
	workers []*worker
	current atomic.Pointer[job] // of the newest call of run
	asleep  atomic.Int64        // helpers that wait for wake
	wake    chan struct{}       // a helper for each element
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

// job is one parallel loop.
type job struct {
	tasks      int64
	next, left atomic.Int64 // the first task that nobody took; tasks that are not done
	do         func(w *worker, task int)
	done       chan struct{} // closed when left is 0
}

func newPool(threads int) *pool {
	p := &pool{wake: make(chan struct{}, threads)}
	for i := range threads {
		w := &worker{}
		p.workers = append(p.workers, w)
		if i == 0 {
			continue // the caller's
		}
		p.running.Go(func() { p.help(w) })
	}
	return p
}

// help works at each job that comes, until the pool is closed.
func (p *pool) help(w *worker) {
	var last *job
	for {
		if spin(func() bool { return p.current.Load() != last }) {
			last = p.current.Load()
			last.work(w)
			continue
		}
		p.asleep.Add(1)
		if p.current.Load() == last { // else it came meanwhile, and may not have seen us asleep
			if _, open := <-p.wake; !open {
				return
			}
		}
		p.asleep.Add(-1)
	}
}

// spin waits for ready without sleeping, for no longer than falling asleep and waking may take
// on a busy machine, and reports whether it came. Steps of a model follow each other faster.
func spin(ready func() bool) bool {
	const most = 100 * time.Microsecond
	for start := time.Now(); time.Since(start) < most; runtime.Gosched() { // lets others work, if there are any
		for range 32 {
			if ready() {
				return true
			}
		}
	}
	return false
}

func (j *job) work(w *worker) {
	for task := j.next.Add(1) - 1; task < j.tasks; task = j.next.Add(1) - 1 {
		j.do(w, int(task))
		if j.left.Add(-1) == 0 {
			close(j.done)
		}
	}
}

// run does every task once, in any order and on any worker, and returns when all are done.
// What a task computes must therefore not depend on its worker. It waits for tasks, not for
// workers: on a busy machine one that has not woken by then finds nothing left to do.
func (p *pool) run(tasks int, do func(w *worker, task int)) {
	helpers := min(len(p.workers), tasks) - 1
	if helpers <= 0 {
		for task := range tasks {
			do(p.workers[0], task)
		}
		return
	}
	j := &job{tasks: int64(tasks), do: do, done: make(chan struct{})}
	j.left.Store(j.tasks)
	p.current.Store(j)
	for range min(helpers, int(p.asleep.Load())) {
		select {
		case p.wake <- struct{}{}:
		default: // enough are already asked for
		}
	}
	j.work(p.workers[0])
	if !spin(func() bool { return j.left.Load() == 0 }) {
		<-j.done
	}
}

// close ends the goroutines.
func (p *pool) close() {
	p.closing.Do(func() { close(p.wake) })
	p.running.Wait()
}
