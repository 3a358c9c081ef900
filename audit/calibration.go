package audit

import (
	"understudy/audit/stat"
)

// Calibration is how far the confidence that rehearsals state can be trusted: a
// hit is a rehearsal below S3.
type Calibration struct {
	Reliability []ReliabilityBin `json:"reliability"` // ascending confidence
	Risk        []RiskPoint      `json:"risk"`        // ascending coverage
}

// ReliabilityBin is one of about ten bins with as many rehearsals each.
type ReliabilityBin struct {
	From       float64       `json:"from"` // confidence, inclusive
	To         float64       `json:"to"`
	Confidence float64       `json:"confidence"` // mean of the bin
	Hits       stat.Estimate `json:"hits"`
}

// RiskPoint is what is left of the errors when only rehearsals of at least
// Threshold are believed.
type RiskPoint struct {
	Threshold float64       `json:"threshold"`
	Coverage  float64       `json:"coverage"` // share of rehearsals that are believed
	Risk      stat.Estimate `json:"risk"`     // of these: S3 or worse
}

const (
	reliabilityBins = 10
	riskPoints      = 20
)

// confidenceMass is one prompt group's rehearsals in one of ConfidenceBins.
type confidenceMass struct {
	group   string
	n, hits int
}

// NewCalibration reads confidence counters by prompt group. Nil without any.
func NewCalibration(groups map[string]Counters) *Calibration {
	var masses [ConfidenceBins][]confidenceMass
	total := 0
	for _, group := range sortedKeys(groups) {
		for bin := range masses {
			if c := groups[group][ConfidenceCounter(bin)]; c.N > 0 {
				masses[bin] = append(masses[bin], confidenceMass{group, c.N, int(c.Sum)})
				total += c.N
			}
		}
	}
	if total == 0 {
		return nil
	}
	return &Calibration{Reliability: reliability(&masses, total), Risk: riskCoverage(&masses, total)}
}

// reliability joins neighbouring bins until each holds its share.
func reliability(masses *[ConfidenceBins][]confidenceMass, total int) []ReliabilityBin {
	var (
		bins  []ReliabilityBin
		sum   = newMassSum()
		from  = -1
		share = (total + reliabilityBins - 1) / reliabilityBins
	)
	flush := func(to int) {
		bins = append(bins, ReliabilityBin{
			From: float64(from) / ConfidenceBins, To: float64(to+1) / ConfidenceBins,
			Confidence: sum.confidence / float64(sum.n), Hits: sum.rate(true),
		})
		sum, from = newMassSum(), -1
	}
	last := 0
	for bin := range masses {
		if len(masses[bin]) == 0 {
			continue
		}
		if from < 0 {
			from = bin
		}
		sum.add(bin, masses[bin])
		if last = bin; sum.n >= share {
			flush(bin)
		}
	}
	if from >= 0 {
		flush(last)
	}
	return bins
}

// riskCoverage believes fewer and fewer rehearsals, from the surest on.
func riskCoverage(masses *[ConfidenceBins][]confidenceMass, total int) []RiskPoint {
	var points []RiskPoint
	sum, next := newMassSum(), 0
	for bin := ConfidenceBins - 1; bin >= 0; bin-- {
		if len(masses[bin]) == 0 {
			continue
		}
		sum.add(bin, masses[bin])
		if sum.n < next && sum.n < total {
			continue
		}
		next = sum.n + total/riskPoints
		points = append(points, RiskPoint{
			Threshold: float64(bin) / ConfidenceBins, Coverage: float64(sum.n) / float64(total), Risk: sum.rate(false),
		})
	}
	return points
}

// massSum adds bins up by prompt group.
type massSum struct {
	n          int
	confidence float64 // Σ of the middles of the bins
	groups     map[string]*stat.Cluster
}

func newMassSum() *massSum { return &massSum{groups: make(map[string]*stat.Cluster)} }

func (s *massSum) add(bin int, masses []confidenceMass) {
	for _, m := range masses {
		s.n += m.n
		s.confidence += float64(m.n) * (float64(bin) + .5) / ConfidenceBins
		c := s.groups[m.group]
		if c == nil {
			c = &stat.Cluster{Group: m.group}
			s.groups[m.group] = c
		}
		hits := float64(m.hits)
		*c = stat.Cluster{Group: m.group, N: c.N + m.n, Weight: c.Weight + float64(m.n), Sum: c.Sum + hits, SumSq: c.SumSq + hits}
	}
}

// rate is the share of hits, or of misses.
func (s *massSum) rate(hits bool) stat.Estimate {
	all := make([]stat.Cluster, 0, len(s.groups))
	for _, group := range sortedKeys(s.groups) {
		c := *s.groups[group]
		if !hits {
			c.Sum = float64(c.N) - c.Sum
			c.SumSq = c.Sum
		}
		all = append(all, c)
	}
	return stat.ClusteredWilson(all, .95)
}
