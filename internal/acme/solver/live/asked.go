package live

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// maxNetworks is how many networks are kept for a challenge. ACME servers ask
// from about five places.
const maxNetworks = 16

// Asked says how often a challenge was asked for from outside, and from how many
// networks: at least, if they are more than a few.
type Asked struct{ Times, Networks int }

// String returns a text for the user.
func (a Asked) String() string {
	switch {
	case a.Times == 0:
		return "never asked"
	case a.Networks == 0:
		return "asked " + count(a.Times, "time")
	}
	return fmt.Sprintf("asked %s from %s", count(a.Times, "time"), count(a.Networks, "network"))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// asked has no more entries than there are Challenges.
type asked struct {
	times    int
	networks map[netip.Prefix]bool
}

// Network returns the network of a client: addresses in it are counted as one.
// It is the zero Prefix for an invalid address, that of a Unix socket.
func Network(client netip.Addr) netip.Prefix {
	client = client.Unmap().WithZone("")
	bits := 48
	if client.Is4() {
		bits = 24
	}
	network, err := client.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return network
}

// Count counts a question about a challenge that was answered.
func (x *Index) Count(uid types.UID, from netip.Prefix) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byUID[uid] == nil {
		return // it was deleted meanwhile
	}
	a := x.asked[uid]
	if a == nil {
		a = &asked{networks: map[netip.Prefix]bool{}}
		x.asked[uid] = a
	}
	a.times++
	if from.IsValid() && len(a.networks) < maxNetworks {
		a.networks[from] = true
	}
}

// Asked returns how often the challenge was asked for, in this process.
func (x *Index) Asked(uid types.UID) Asked {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if a := x.asked[uid]; a != nil {
		return Asked{Times: a.times, Networks: len(a.networks)}
	}
	return Asked{}
}
