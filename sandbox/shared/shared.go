// Package shared opens environments once each, by name, and shares them. Who asks
// for one that is being opened waits for that one alone, and no longer than its own
// context; who asks for another does not wait.
package shared

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"understudy/audit"
)

// Environments are those that are open, or on their way. The zero value is ready. It is
// safe for concurrent use.
type Environments struct {
	mu   sync.Mutex
	open map[string]*entry
}

// entry is one environment. It leaves the map when nobody asks for it and it is not open:
// names that do not exist must not stay.
type entry struct {
	turn  chan struct{} // holds one token while somebody opens or closes it
	users int           // who has the entry, under Environments.mu
	env   audit.Environment
}

// OpenFunc opens an environment.
type OpenFunc func(ctx context.Context) (audit.Environment, error)

// Environment returns the environment of that name, which open opens where it is not open
// yet. What failed is tried again by who waited and by who asks later: the context that
// ended it was one caller's.
func (e *Environments) Environment(ctx context.Context, name string, open OpenFunc) (audit.Environment, error) {
	at := e.enter(name)
	defer e.leave(name, at)
	select {
	case at.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for environment %s to open: %w", name, context.Cause(ctx))
	}
	defer func() { <-at.turn }()
	if at.env != nil {
		return at.env, nil
	}
	env, err := open(ctx)
	if err != nil {
		return nil, err
	}
	at.env = env
	return env, nil
}

func (e *Environments) enter(name string) *entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.open[name]
	if at == nil {
		at = &entry{turn: make(chan struct{}, 1)}
		if e.open == nil {
			e.open = map[string]*entry{}
		}
		e.open[name] = at
	}
	at.users++
	return at
}

func (e *Environments) leave(name string, at *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at.users--
	if at.users == 0 && at.env == nil {
		delete(e.open, name)
	}
}

// Close closes every environment; it waits for those that are being opened.
func (e *Environments) Close() error {
	e.mu.Lock()
	all := make(map[string]*entry, len(e.open))
	for name, at := range e.open {
		at.users++
		all[name] = at
	}
	e.mu.Unlock()
	var errs []error
	for name, at := range all {
		at.turn <- struct{}{}
		if at.env != nil {
			if err := at.env.Close(); err != nil {
				errs = append(errs, fmt.Errorf("close environment %s: %w", name, err))
			}
			at.env = nil
		}
		<-at.turn
		e.leave(name, at)
	}
	return errors.Join(errs...)
}
