package dnsquery

import (
	"fmt"
	"net"

	"github.com/miekg/dns"
)

// HostServers returns the name servers in a file such as /etc/resolv.conf.
func HostServers(file string) ([]string, error) {
	host, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the name servers of this host: %w", err)
	}
	servers := make([]string, 0, len(host.Servers))
	for _, server := range host.Servers {
		servers = append(servers, net.JoinHostPort(server, host.Port))
	}
	return servers, nil
}
