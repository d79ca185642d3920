package live

import "github.com/certplane/certplane/internal/api/rfc8555"

// ServerName returns the name by which TLS-ALPN-01 asks for a name or an
// address, in any spelling.
func ServerName(host string) string { return rfc8555.ServerName(Host(host)) }
