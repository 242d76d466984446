// Package config reads the configuration: defaults, then a YAML file, the environment and flags.
//
//	config.go   Config: every key, its default and its documentation
//	load.go     Load: reads the sources in order and reports every error with its position
//	yaml.go env.go flags.go value.go   how each source and each kind of value is read
//	check.go    which values are valid, alone and together
//	datadir.go secrets.go   where a node keeps its files, and its generated or configured secrets
//	options.go tls.go       the settings as options of other packages
//
// The tags of Config are the only source of its names: the file, the environment, errors and
// docs/reference/configuration.md follow them.
package config
