package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// CUSUM watches a stream of values in [0,1] for a rise of their mean from P0 to
// P1 (or a fall, when P1 < P0): the one-sided cumulative sum of log likelihood
// ratios (Page 1954; Bernoulli scheme of Reynolds, Stoumbos 1999). The reference
// P0 is fixed, so that a slow drift cannot be absorbed. Not safe for concurrent use.
type CUSUM struct {
	hit, miss float64 // score of a 1 and of a 0
	threshold float64
	sum       float64
	n         int
}

// NewCUSUM makes a watch whose threshold lets at most falseAlarm of the stable
// streams of the given length (values 0 or 1 with mean p0) raise an alarm. The
// threshold is simulated with 4000 streams from seed; the textbook threshold
// h = 5 alarms on most stable streams of 1000. Feed one value per prompt group:
// correlated values alarm early.
func NewCUSUM(p0, p1 float64, length int, falseAlarm float64, seed uint64) (*CUSUM, error) {
	switch {
	case !(p0 > 0 && p0 < 1 && p1 > 0 && p1 < 1) || p0 == p1:
		return nil, fmt.Errorf("cusum: p0 %v and p1 %v must differ and lie between 0 and 1", p0, p1)
	case length < 1:
		return nil, fmt.Errorf("cusum: stream length %d must be positive", length)
	case !(falseAlarm > 0 && falseAlarm < 1):
		return nil, fmt.Errorf("cusum: false alarm rate %v must lie between 0 and 1", falseAlarm)
	}
	c := &CUSUM{hit: math.Log(p1 / p0), miss: math.Log((1 - p1) / (1 - p0))}
	const streams = 4000
	random := rand.New(rand.NewPCG(seed, 0x637573756d))
	peaks := make([]float64, streams)
	for i := range peaks {
		sum := 0.
		for range length {
			if random.Float64() < p0 {
				sum = max(0, sum+c.hit)
			} else {
				sum = max(0, sum+c.miss)
			}
			peaks[i] = max(peaks[i], sum)
		}
	}
	slices.Sort(peaks)
	// The walk lives on a lattice, so the alarm is "above", never "at".
	c.threshold = peaks[min(streams-1, int(math.Ceil((1-falseAlarm)*streams))-1)]
	return c, nil
}

// Add feeds one value and reports whether the watch is in alarm. A value that
// is not in [0,1] is not counted.
func (c *CUSUM) Add(x float64) bool {
	if x >= 0 && x <= 1 {
		c.n++
		c.sum = max(0, c.sum+x*c.hit+(1-x)*c.miss)
	}
	return c.Alarm()
}

// Alarm reports whether the sum is above the threshold.
func (c *CUSUM) Alarm() bool { return c.sum > c.threshold+1e-9 }

// Sum is the present height, Threshold the height beyond which it alarms.
func (c *CUSUM) Sum() float64 { return c.sum }

// Threshold is the simulated height.
func (c *CUSUM) Threshold() float64 { return c.threshold }

// N is how many values were counted.
func (c *CUSUM) N() int { return c.n }

// Reset starts over: a new checkpoint is a new parameter.
func (c *CUSUM) Reset() { c.sum, c.n = 0, 0 }
