package audit_test

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"understudy/audit"
)

// sliced are pairs of two tools in two modes on two versions, with rollouts of
// one prompt alike.
func sliced(groups int) []audit.Pair {
	random := rand.New(rand.NewPCG(3, 4))
	var pairs []audit.Pair
	for g := range groups {
		hard := random.Float64()
		for r := range 8 {
			v := audit.Verdict{Real: audit.Outcome{Class: audit.OK}, Rehearsed: audit.Outcome{Class: audit.OK}, Scores: audit.Scores{Valid: true, LeafF1: new(1 - hard/2)}}
			if random.Float64() < hard {
				v.Severity = audit.S3
			}
			pairs = append(pairs, audit.Pair{
				Episode: strconv.Itoa(g) + "/" + strconv.Itoa(r), PromptGroup: strconv.Itoa(g), Environment: "shop", Version: strconv.Itoa(1 + r%2),
				Mode: []audit.Mode{audit.Forced, audit.Open}[r/4], Action: audit.Action{Call: audit.Call{Tool: []string{"get", "set"}[g%2]}}, Verdict: v, Success: new(r%2 == 0),
			})
		}
	}
	return pairs
}

func find(t *testing.T, all []audit.Figures, want audit.Cell) audit.Figures {
	t.Helper()
	for _, f := range all {
		if f.Cell == want {
			return f
		}
	}
	t.Fatalf("no slice %+v among %d", want, len(all))
	return audit.Figures{}
}

// TestSlicesPoolWithoutSplittingPrompts compares a pooled slice with the figures
// of a tally that never knew versions and modes: a prompt group stays one cluster.
func TestSlicesPoolWithoutSplittingPrompts(t *testing.T) {
	t.Parallel()
	pairs := sliced(60)
	split, one := audit.NewTally(), audit.NewTally()
	for i := range pairs {
		split.Add(pairs[i : i+1])
		p := pairs[i]
		p.Version, p.Mode, p.Success = "", "", nil
		one.Add([]audit.Pair{p})
	}
	all := split.Slices(1)
	for _, tool := range []string{"get", "set"} {
		got := find(t, all, audit.Cell{Environment: "shop", Tool: tool, Split: audit.AllTasks})
		want := one.FiguresOf(audit.Cell{Environment: "shop", Tool: tool, Split: audit.AllTasks}, 1)
		a, b := got.Value("material"), want.Value("material")
		if a.N != b.N || math.Abs(a.Lo-b.Lo) > 1e-9 || math.Abs(a.Hi-b.Hi) > 1e-9 || a.Clusters != b.Clusters {
			t.Errorf("%s pooled: %s, at once: %s", tool, a, b)
		}
	}
	pooled := find(t, all, audit.Cell{Tool: audit.AllTools, Split: audit.AllTasks})
	if pooled.Pairs != len(pairs) || pooled.Value("material").Clusters != 60 {
		t.Errorf("all tools: %d pairs in %d prompt groups, want %d in 60", pooled.Pairs, pooled.Value("material").Clusters, len(pairs))
	}
	part := find(t, all, audit.Cell{Environment: "shop", Tool: "get", Version: "1", Mode: audit.Open, Split: audit.Succeeded})
	if part.Pairs == 0 || part.Pairs >= pooled.Pairs {
		t.Errorf("one version, mode and split hold %d of %d pairs", part.Pairs, pooled.Pairs)
	}
}

// TestRandomGroupsKeepTheInterval merges thousands of prompts at random: the mean
// stays, and the interval is about as wide as before.
func TestRandomGroupsKeepTheInterval(t *testing.T) {
	t.Parallel()
	pairs := sliced(6000)
	fine, coarse := audit.NewTally(), audit.NewTally()
	for i := 0; i < len(pairs); i += 8 {
		fine.Add(pairs[i : i+8])
		for j := range pairs[i : i+8] {
			h := fnv.New32a()
			_, _ = h.Write([]byte(pairs[i+j].PromptGroup))
			pairs[i+j].PromptGroup = strconv.Itoa(int(h.Sum32() % 512))
		}
		coarse.Add(pairs[i : i+8])
	}
	cell := audit.Cell{Tool: audit.AllTools, Split: audit.AllTasks}
	x, y := find(t, fine.Slices(1), cell), find(t, coarse.Slices(1), cell)
	a, b := x.Value("material"), y.Value("material")
	if a.N != b.N || math.Abs(a.Value-b.Value) > 1e-9 || b.Clusters > 512 {
		t.Errorf("merged %s, apart %s", b, a)
	}
	if ratio := (b.Hi - b.Lo) / (a.Hi - a.Lo); ratio < .85 || ratio > 1.2 {
		t.Errorf("the interval of merged prompts is %.2f times as wide: %s, %s", ratio, b, a)
	}
}
