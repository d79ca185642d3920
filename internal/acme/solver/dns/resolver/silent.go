package resolver

import (
	"slices"
	"sync"
)

// silent are the recursive name servers that did not answer the last query. It
// is safe for concurrent use.
type silent struct {
	mu      sync.Mutex // guards servers
	servers map[string]bool
}

// last returns the servers in their order, but those that are silent last.
func (s *silent) last(servers []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	servers = slices.Clone(servers)
	slices.SortStableFunc(servers, func(a, b string) int {
		switch {
		case s.servers[a] == s.servers[b]:
			return 0
		case s.servers[b]:
			return -1
		default:
			return 1
		}
	})
	return servers
}

func (s *silent) set(server string, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !is {
		delete(s.servers, server)
		return
	}
	if s.servers == nil || len(s.servers) >= maxServers { // those of former files
		s.servers = map[string]bool{}
	}
	s.servers[server] = true
}
