package interop

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	inFlight = 500
	// parties is how many requests are sent at the same time.
	parties = 16
	// workers is how many certificates a signer makes at the same time.
	workers = 5
)

// The leader is killed while it signs: each client that waits for a certificate
// gets exactly one.
func TestControllersFailover(t *testing.T) {
	c := startCluster(t)
	leader := c.controllers(t)
	eventually(t, "the first replica leads", func() bool { return c.leader(t) != "" })
	standby := c.controllers(t)
	if strings.Contains(standby.output.tail(1<<20), "The controllers work here from now on") {
		t.Fatal("the second replica leads too")
	}

	requests := c.submitMany(t)
	seen := c.watchCertificates(t, func(count int) {
		if count == inFlight/10 {
			leader.kill()
		}
	})
	parallel(requests, func(object map[string]any) { c.approve(t, object) })
	eventually(t, "all are signed", func() bool { return seen.count() == inFlight })

	if changed := seen.twice(); len(changed) > 0 {
		t.Errorf("certificates were replaced: %v", changed)
	}
	first, second := leader.signatures(t), standby.signatures(t)
	t.Logf("the first replica reported %d certificates, the second %d", len(first), len(second))
	if len(first) == 0 || len(second) == 0 {
		t.Errorf("the first replica signed %d, the second %d: nothing was taken over", len(first), len(second))
	}
	// The first one could not report what it stored when it was killed.
	if missing := inFlight - len(first) - len(second); missing < 0 || missing > workers {
		t.Errorf("%d requests, but %d + %d certificates", inFlight, len(first), len(second))
	}
	for uid, serial := range second {
		if first[uid] != "" {
			t.Errorf("request %s was signed as %s and as %s", uid, first[uid], serial)
		}
	}
	for name, cert := range seen.all() {
		if got := serialOf(t, cert.chain); got != first[cert.uid] && got != second[cert.uid] && first[cert.uid]+second[cert.uid] != "" {
			t.Errorf("%s has the certificate %s, but %q was reported", name, got, first[cert.uid]+second[cert.uid])
		}
	}
}

// submitMany creates the requests, which are not approved yet.
func (c *cluster) submitMany(t *testing.T) []map[string]any {
	t.Helper()
	names := make([]string, inFlight)
	for i := range names {
		names[i] = fmt.Sprintf("flight-%d", i)
	}
	var mu sync.Mutex
	var objects []map[string]any
	parallel(names, func(name string) {
		object := c.submit(t, call{body: newRequest(t, name)})
		mu.Lock()
		defer mu.Unlock()
		objects = append(objects, object)
	})
	return objects
}

func newRequest(t *testing.T, name string) map[string]any {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Error(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Error(err)
	}
	return map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"request":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			"signerName": "kubernetes.io/kube-apiserver-client", "usages": []string{"client auth"}, "expirationSeconds": 3600,
		},
	}
}

func parallel[T any](items []T, do func(T)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, parties)
	for _, item := range items {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			do(item)
		})
	}
	group.Wait()
}

// seen are the certificates that a watch has shown. It is safe for concurrent
// use.
type seen struct {
	mu           sync.Mutex
	certificates map[string]seenCertificate // by the request's name
	replaced     []string
	counted      func(int) // called with how many there are
}

type seenCertificate struct {
	uid   string
	chain []byte
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.certificates)
}

func (s *seen) twice() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replaced
}

func (s *seen) all() map[string]seenCertificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.certificates
}

func (s *seen) add(name, uid string, chain []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, ok := s.certificates[name]; ok && !bytes.Equal(had.chain, chain) {
		s.replaced = append(s.replaced, name)
	}
	s.certificates[name] = seenCertificate{uid: uid, chain: chain}
	s.counted(len(s.certificates))
}

// watchCertificates records every change of every request from now on.
func (c *cluster) watchCertificates(t *testing.T, counted func(int)) *seen {
	t.Helper()
	watcher := &http.Client{Transport: c.client.Transport} // it lasts as long as the test
	response, err := watcher.Do(c.request(t, call{method: http.MethodGet, path: csrs + "?watch=true"}))
	if err != nil {
		t.Fatal(err)
	}
	s := &seen{certificates: map[string]seenCertificate{}, counted: counted}
	go func() {
		defer response.Body.Close()
		for decoder := json.NewDecoder(response.Body); ; {
			var event struct {
				Object struct {
					Metadata struct{ Name, UID string }
					Status   struct{ Certificate []byte }
				}
			}
			if decoder.Decode(&event) != nil {
				return
			}
			if object := event.Object; len(object.Status.Certificate) > 0 {
				s.add(object.Metadata.Name, object.Metadata.UID, object.Status.Certificate)
			}
		}
	}()
	return s
}

// signatures returns the serial numbers that a replica has reported, by the
// request's UID. Each signature that was stored is logged once.
func (r *replica) signatures(t *testing.T) map[string]string {
	t.Helper()
	serials := map[string]string{}
	for line := range strings.Lines(r.output.tail(64 << 20)) {
		var entry struct{ Msg, UID, Serial string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg != "Issued certificate" {
			continue
		}
		if serials[entry.UID] != "" {
			t.Errorf("one replica signed %s twice", entry.UID)
		}
		serials[entry.UID] = entry.Serial
	}
	return serials
}

// serialOf returns the serial number of the only certificate in a chain that is
// not a CA's.
func serialOf(t *testing.T, chain []byte) string {
	t.Helper()
	var serials []string
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if !cert.IsCA {
			serials = append(serials, cert.SerialNumber.Text(16))
		}
	}
	if len(serials) != 1 {
		t.Errorf("not one certificate: %s", chain)
	}
	return strings.Join(serials, " ")
}

// A leader that stops releases its lease: the next one leads at once.
func TestControllersHandOver(t *testing.T) {
	c := startCluster(t)
	long := []string{"--leader-elect-lease-duration", "10m", "--leader-elect-renew-deadline", "2s"}
	first := c.controllers(t, long...)
	eventually(t, "the first replica leads", func() bool { return c.leader(t) != "" })
	holder := c.leader(t)
	second := c.controllers(t, long...)
	if err := first.stop(); err != nil {
		t.Errorf("the first replica ended with %v", err)
	}
	eventually(t, "the second replica leads", func() bool { now := c.leader(t); return now != "" && now != holder })

	// A leader whose lease another client takes away waits, and leads again when it is free.
	take := func(holder string) {
		c.kubectl(t, "patch", "lease", "certplane-controllers", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"holderIdentity":%q,"renewTime":%q}}`, holder, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
	}
	take("somebody else")
	eventually(t, "the second replica waits for the lease", func() bool {
		return strings.Contains(second.output.tail(4<<10), "The lease of the controllers is lost")
	})
	take("")
	eventually(t, "the second replica leads again", func() bool { now := c.leader(t); return now != "" && now != "somebody else" })
	if err := second.stop(); err != nil {
		t.Errorf("the second replica ended with %v", err)
	}
}
