package main

import (
	"flag"

	"understudy/audit"
	"understudy/envace/remote"
)

// policyFlags say which policy rehearses, where episodes bring no rehearsals.
type policyFlags struct {
	url         string
	model       string
	temperature float64
	k           int
}

func (p *policyFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&p.url, "policy", "", "base URL of an OpenAI-compatible server whose model rehearses, such as http://127.0.0.1:8000/v1")
	fs.StringVar(&p.model, "model", "", "model of that server; needed when it serves several")
	fs.Float64Var(&p.temperature, "temperature", 0, "of rehearsals")
	fs.IntVar(&p.k, "k", 1, "rehearsals of each action; their agreement is stored")
}

// rehearser is the policy that the flags name, or nil: then only rehearsals that
// came with an episode are audited.
func (p *policyFlags) rehearser(cfg Config) (audit.Rehearser, error) {
	if p.url == "" {
		return nil, nil //nolint:nilnil // no policy is an ordinary answer
	}
	policy, err := p.remote(cfg)
	if err != nil {
		return nil, err // a nil *Policy must not become a non-nil Rehearser
	}
	return policy, nil
}

func (p *policyFlags) remote(cfg Config) (*remote.Policy, error) {
	return remote.New(remote.Config{
		URL: p.url, Model: p.model, APIKey: string(cfg.PolicyKey), Temperature: p.temperature,
	})
}
