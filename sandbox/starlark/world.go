package starlark

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"understudy/sandbox/state"
)

// The parts of the state that the engine keeps for the domain. They live in the
// state so that a rehearsed and a real call agree and a rollback restores them.
const (
	sysKey      = "$sys"
	sysClock    = "clock"    // the world's now
	sysSeed     = "seed"     // of new ids
	sysCounters = "counters" // ids handed out, by prefix

	defaultClock = "2025-01-15T09:00:00"
)

// withSys returns root with the engine's part set: what start gives wins over
// what the state holds, which wins over the defaults.
func withSys(root *state.Object, seed uint64, clock time.Time) (*state.Object, error) {
	tx := state.Begin(root)
	world := tx.Root()
	sys, found, _ := world.Get(starlark.String(sysKey))
	if !found {
		if err := world.SetKey(starlark.String(sysKey), starlark.NewDict(0)); err != nil {
			return nil, err
		}
		sys, _, _ = world.Get(starlark.String(sysKey))
	}
	m, ok := sys.(*state.Map)
	if !ok {
		return nil, fmt.Errorf("%s of the state is not an object", sysKey)
	}
	set := func(key string, v starlark.Value, force bool) error {
		if has, _ := m.Has(starlark.String(key)); has && !force {
			return nil
		}
		return m.SetKey(starlark.String(key), v)
	}
	now := starlark.String(defaultClock)
	if !clock.IsZero() {
		now = starlark.String(clock.Format(stampLayout))
	}
	err := errors.Join(
		set(sysClock, now, !clock.IsZero()),
		set(sysSeed, starlark.MakeUint64(seed), seed != 0),
		set(sysCounters, starlark.NewDict(0), false),
	)
	return tx.Commit(), err
}

// sys returns the engine's part of the live state.
func (r *run) sys(who string) (*state.Map, error) {
	root, err := r.world(who)
	if err != nil {
		return nil, err
	}
	v, _, _ := root.Get(starlark.String(sysKey))
	m, ok := v.(*state.Map)
	if !ok {
		return nil, fmt.Errorf("%s: %s of the state was removed", who, sysKey)
	}
	return m, nil
}

// builtinNewID is new_id(prefix, digits=7): a fresh id from the state's seed and a
// counter in the state. For one prefix the ids are a permutation of all numbers
// with that many digits, so they repeat only after 10^digits of them.
func builtinNewID(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	prefix, digits := "", 7
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "prefix", &prefix, "digits?", &digits); err != nil {
		return nil, err
	}
	if digits < 1 || digits > 15 {
		return nil, errors.New("new_id: digits must be between 1 and 15")
	}
	sys, err := runOf(thread).sys(b.Name())
	if err != nil {
		return nil, err
	}
	v, _, _ := sys.Get(starlark.String(sysCounters))
	counters, ok := v.(*state.Map)
	if !ok {
		return nil, fmt.Errorf("new_id: %s/%s of the state is not an object", sysKey, sysCounters)
	}
	n := uint64(0)
	if v, found, _ := counters.Get(starlark.String(prefix)); found {
		if err := starlark.AsInt(v, &n); err != nil {
			return nil, fmt.Errorf("new_id: counter %q: %w", prefix, err)
		}
	}
	if err := counters.SetKey(starlark.String(prefix), starlark.MakeUint64(n+1)); err != nil {
		return nil, err
	}
	seed, _, _ := sys.Get(starlark.String(sysSeed))
	return starlark.String(prefix + permute(n, digits, prefix, pyText(orNone(seed)))), nil
}

func orNone(v starlark.Value) starlark.Value {
	if v == nil {
		return starlark.None
	}
	return v
}

// permute maps n to a number of the given digits, one to one: multiplication by a
// unit modulo 10^digits, and a shift that the seed decides.
func permute(n uint64, digits int, prefix, seed string) string {
	space := uint64(math.Pow10(digits))
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s", seed, prefix)
	shift := h.Sum64() % space
	unit := uint64(7_368_787) // ends in 7: a unit of every power of ten
	return fmt.Sprintf("%0*d", digits, (mulmod(n%space, unit%space, space)+shift)%space)
}

// mulmod is a*b mod m without overflow for m up to 10^15.
func mulmod(a, b, m uint64) uint64 {
	sum := uint64(0)
	for ; b > 0; b >>= 1 {
		if b&1 == 1 {
			sum = (sum + a) % m
		}
		a = a * 2 % m
	}
	return sum
}

const (
	dateLayout  = "2006-01-02"
	stampLayout = "2006-01-02T15:04:05"
)

func builtinNow(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := starlark.UnpackArgs(b.Name(), args, kwargs); err != nil {
		return nil, err
	}
	sys, err := runOf(thread).sys(b.Name())
	if err != nil {
		return nil, err
	}
	v, found, _ := sys.Get(starlark.String(sysClock))
	if !found {
		return nil, fmt.Errorf("now: %s/%s of the state was removed", sysKey, sysClock)
	}
	return v, nil
}

// parseDate reads a date or a timestamp and says how it was written.
func parseDate(who, s string) (time.Time, string, error) {
	layout := dateLayout
	if strings.Contains(s, "T") {
		layout = stampLayout
	}
	t, err := time.Parse(layout, s)
	if err != nil {
		return t, layout, fmt.Errorf("%s: %q is neither YYYY-MM-DD nor YYYY-MM-DDTHH:MM:SS", who, s)
	}
	return t, layout, nil
}

func builtinDateAdd(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var date string
	var days, hours, minutes int
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "date", &date, "days?", &days, "hours?", &hours, "minutes?", &minutes)
	if err != nil {
		return nil, err
	}
	t, layout, err := parseDate(b.Name(), date)
	if err != nil {
		return nil, err
	}
	beyond := func(n, most int) bool { return n > most || n < -most }
	if beyond(days, 4_000_000) || beyond(hours, 2_000_000) || beyond(minutes, 100_000_000) {
		return nil, errors.New("date_add: the span is out of range")
	}
	t = t.AddDate(0, 0, days).Add(time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute)
	if t.Year() < 1 || t.Year() > 9999 {
		return nil, errors.New("date_add: the result is out of range")
	}
	return starlark.String(t.Format(layout)), nil
}

// between returns b - a of two dates.
func between(b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (time.Duration, error) {
	var from, to string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "a", &from, "b", &to); err != nil {
		return 0, err
	}
	start, _, err := parseDate(b.Name(), from)
	if err != nil {
		return 0, err
	}
	end, _, err := parseDate(b.Name(), to)
	return end.Sub(start), err
}

// builtinHoursBetween is the exact span as a number of hours, negative if b is earlier.
func builtinHoursBetween(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	span, err := between(b, args, kwargs)
	return starlark.Float(span.Hours()), err
}

// builtinDaysBetween is the span in whole days, rounded down.
func builtinDaysBetween(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	span, err := between(b, args, kwargs)
	return starlark.MakeInt(int(math.Floor(span.Hours() / 24))), err
}

// builtinWeekday is Monday, Tuesday, ...
func builtinWeekday(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var date string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "date", &date); err != nil {
		return nil, err
	}
	t, _, err := parseDate(b.Name(), date)
	return starlark.String(t.Weekday().String()), err
}
