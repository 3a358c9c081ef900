package main

import (
	"cmp"
	"fmt"

	"understudy/audit"
	"understudy/envace/train"
)

// readBy are the settings with the files of answers that a recipe names, where the
// settings name none.
func (c Config) readBy(r train.Recipe) Config {
	c.Rules, c.PathPolicy = cmp.Or(c.Rules, r.Rules), cmp.Or(c.PathPolicy, r.PathPolicy)
	return c
}

// loadRules reads how answers are read and compared, from the files that the settings
// name; without any it is the defaults.
func loadRules(cfg Config) (*audit.Rules, error) {
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
