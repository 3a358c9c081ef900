package main

import (
	"fmt"

	"understudy/audit"
)

// loadRules reads how answers are judged, from the files that the settings name; nil:
// by the defaults.
func loadRules(cfg Config) (*audit.Rules, error) {
	if cfg.Rules == "" && cfg.PathPolicy == "" {
		return nil, nil //nolint:nilnil // nothing was written, and nothing need be
	}
	var rules, paths []byte
	for _, file := range []struct {
		setting, path string
		text          *[]byte
	}{{"rules", cfg.Rules, &rules}, {"path-policy", cfg.PathPolicy, &paths}} {
		if file.path == "" {
			continue
		}
		var err error
		if *file.text, err = readSmall(file.path); err != nil {
			return nil, usageError(file.setting+": "+err.Error(), "name an existing file with --"+file.setting)
		}
		if _, err := audit.ParseRules(rules, paths, nil); err != nil {
			return nil, fmt.Errorf("%s: %w", file.path, err)
		}
	}
	return audit.ParseRules(rules, paths, nil)
}
