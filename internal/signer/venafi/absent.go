//go:build !venafi

package venafi

// Built reports whether this program can speak to the servers. What it needs for
// that is compiled in by the build tag venafi.
const Built = false

var newConnector func(target, *line) (connector, error)
