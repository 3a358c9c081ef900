package audit

import "time"

// AllTools is the tool of figures that are pooled over all tools.
const AllTools = "*"

// RunHead is a run in a list, with how far it is.
type RunHead struct {
	Number     int32     `json:"number"` // of the ledger, increasing
	Name       string    `json:"name"`
	Policy     string    `json:"policy"`
	Checkpoint int64     `json:"checkpoint,omitempty"`
	State      RunState  `json:"state"`
	Tags       []string  `json:"tags,omitempty"`
	Started    time.Time `json:"started"`
	Completed  time.Time `json:"completed,omitzero"`
	Pairs      int       `json:"pairs"`
	Masked     int       `json:"masked"`
	Moves      int64     `json:"moves"` // how often its counters moved: equal moves, equal figures
}

// Slice says which of a run's figures are meant.
type Slice struct {
	Version string `json:"version,omitempty"` // of the environment; "" = all
	Mode    Mode   `json:"mode,omitempty"`    // "" = all
	Split   Split  `json:"split,omitempty"`   // "" = AllTasks
}

// Summary is a slice of a run's figures as they were last computed.
type Summary struct {
	Run      RunHead   `json:"run"`
	Slice    Slice     `json:"slice"`
	Moves    int64     `json:"moves"` // of the run when they were computed; Run.Moves is now
	Computed time.Time `json:"computed"`
	Tools    []Figures `json:"tools"`              // one a tool, pooled over the slice
	Pooled   *Figures  `json:"pooled,omitempty"`   // over all tools; nil = nothing was audited
	Episodes *Figures  `json:"episodes,omitempty"` // of whole rollouts
	Versions []string  `json:"versions"`           // that the run has, whatever the slice is
	Modes    []Mode    `json:"modes"`
}

// Reread is how many calls left the slice's figures because nothing of them
// differs but what people marked as noise.
func (s *Summary) Reread() int {
	if s.Pooled == nil {
		return 0
	}
	return s.Pooled.Masked[MaskNoise]
}

// Current reports whether the run has not moved since.
func (s *Summary) Current() bool { return s.Moves == s.Run.Moves }
