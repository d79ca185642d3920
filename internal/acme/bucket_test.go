package acme

import (
	"testing"
	"time"

	"github.com/certplane/certplane/internal/process/backoff"
)

// The configured number of orders applies to Let's Encrypt, and refills evenly.
func TestBudget(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := bucket{size: 300, period: 3 * time.Hour}
	for i := range 300 {
		if wait := b.take(now); wait != 0 {
			t.Fatalf("order %d waits for %v", i, wait)
		}
	}
	if wait := b.take(now); wait <= 0 || wait > 37*time.Second {
		t.Errorf("the next order waits for %v", wait)
	}
	if wait := b.take(now.Add(37 * time.Second)); wait != 0 {
		t.Errorf("after 37 s it waits for %v", wait)
	}
	for i := range 300 {
		if wait := b.take(now.Add(100 * time.Hour)); wait != 0 {
			t.Fatalf("later, order %d waits for %v", i, wait)
		}
	}
	if b.take(now.Add(100*time.Hour)) == 0 {
		t.Error("unused orders add up")
	}
	if none := (&bucket{}); none.take(now) != 0 {
		t.Error("no limit is one")
	}
	for host, size := range map[string]int{letsEncrypt: 300, "ca.example.com": 0} {
		if got := newLimits(DefaultClientSettings(), host).budgets.orders.size; got != size {
			t.Errorf("%s has a limit of %d", host, got)
		}
	}
}

// A Pool forgets the server that was not used for the longest time.
func TestManyServers(t *testing.T) {
	p, err := NewPool(PoolConfig{Jitter: backoff.Random})
	if err != nil {
		t.Fatal(err)
	}
	host := func(i int) Config {
		return Config{Directory: "https://" + string(rune('a'+i%26)) + "." + time.Duration(i).String()}
	}
	for i := range maxServers {
		if _, err := p.server(host(i)); err != nil {
			t.Fatal(err)
		}
	}
	first, err := p.server(host(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.server(host(maxServers)); err != nil {
		t.Fatal(err)
	}
	again, err := p.server(host(0))
	if err != nil || again != first || len(p.servers) != maxServers {
		t.Errorf("%d servers, %v", len(p.servers), err)
	}
	if _, ok := p.servers[serverKeyOf(host(1))]; ok {
		t.Error("the oldest is still known")
	}
}
