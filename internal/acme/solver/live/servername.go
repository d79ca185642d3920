package live

import "github.com/certplane/certplane/internal/api/rfc8555"

// ServerName returns the TLS server name that TLS-ALPN-01 uses for a name or an address,
// in any spelling.
func ServerName(host string) string { return rfc8555.ServerName(Host(host)) }
