package acmevalidate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/run/server"
)

var shared apitest.Shared

func TestMain(m *testing.M) { apitest.Main(m, &shared) }

// site is a web server on a loopback address, and the world whose endpoint may
// connect to it.
type site struct {
	*acmetest.World
	thumbprint string
	requests   atomic.Int32
}

func newSite(t *testing.T, local bool, answer func(s *site, n int32, token string) (int, string)) *site {
	t.Helper()
	return newSiteAt(t, shared.Start(t), local, answer)
}

func newSiteAt(t *testing.T, server *apitest.Server, local bool, answer func(s *site, n int32, token string) (int, string)) *site {
	t.Helper()
	s := &site{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, body := answer(s, s.requests.Add(1), strings.TrimPrefix(r.URL.Path, rfc8555.HTTPPath))
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	})}
	go func() { _ = web.Serve(listener) }()
	t.Cleanup(func() { web.Close() })
	s.World = acmetest.New(t, server, func(e *v1alpha1.AcmeEndpoint, _ *v1alpha1.AcmeExternalKey) {
		e.Spec.Identifiers.IP = &v1alpha1.AcmeAddresses{Allow: []string{"127.0.0.1", "10.96.0.0/12"}}
		e.Spec.Identifiers.DNS.Allow = append(e.Spec.Identifiers.DNS.Allow, "*.k8s.example")
		e.Spec.Challenges.HTTP01.Ports = []int32{int32(listener.Addr().(*net.TCPAddr).Port)}
		if local {
			e.Annotations = map[string]string{v1alpha1.AcmeAllowLocalAnnotation: "true"}
			e.Spec.Challenges.Networks.Allow = []string{"127.0.0.0/8"}
		}
	})
	s.makeKey()
	return s
}

// makeKey stores a key of the account.
func (s *site) makeKey() {
	s.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		s.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString
	jwk, err := json.Marshal(map[string]string{"kty": "EC", "crv": "P-256", "x": text(point[1:33]), "y": text(point[33:])})
	if err != nil {
		s.Fatal(err)
	}
	key, err := jws.StoredKey(jwk)
	if err != nil {
		s.Fatal(err)
	}
	s.thumbprint = key.ThumbprintText()
	stored := &v1alpha1.AcmeAccountKey{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "." + acmetest.ID() + acmetest.ID()}, Spec: v1alpha1.AcmeAccountKeySpec{
		Endpoint: s.Namespace, Account: s.Account.Name, JWK: string(jwk),
	}}
	s.Create(stored)
	s.Account.Status.Key = stored.Name
	s.UpdateStatus(s.Account)
}

// begin stores an order for the address of the site, and has its http-01 challenge
// tried.
func (s *site) begin(t *testing.T) *v1alpha1.AcmeOrder {
	t.Helper()
	return s.beginFor(t, "127.0.0.1")
}

// beginFor is begin for another name.
func (s *site) beginFor(t *testing.T, name string) *v1alpha1.AcmeOrder {
	t.Helper()
	o := s.Order(name)
	for i, c := range o.Status.Authorizations[0].Challenges {
		if c.Type != rfc8555.ChallengeHTTP01 {
			continue
		}
		status := acmeorder.StartChallenge(o, acmeorder.Position{Challenge: i}, s.Endpoint.Spec.Challenges.Attempts, time.Now())
		if status == nil {
			t.Fatalf("the challenge cannot begin: %+v", o.Status)
		}
		o.Status = *status
		s.UpdateStatus(o)
		return o
	}
	t.Fatalf("no http-01: %+v", o.Status)
	return nil
}

// ended waits for the verdict about the only authorization.
func (s *site) ended(o *v1alpha1.AcmeOrder) v1alpha1.AcmeAuthorization {
	s.Helper()
	o = s.Until(o, "has a verdict", func(o *v1alpha1.AcmeOrder) bool { return o.Status.Authorizations[0].State != rfc8555.StatePending })
	return o.Status.Authorizations[0]
}

// A client whose answer is right is believed, and its order gets a certificate.
func TestValid(t *testing.T) {
	s := newSite(t, true, func(s *site, _ int32, token string) (int, string) { return 200, token + "." + s.thumbprint + "\n" })
	s.AutoApprove()
	o := s.begin(t)
	if a := s.ended(o); a.State != rfc8555.StateValid {
		t.Fatalf("the authorization is %+v", a)
	}
	o = s.Until(o, "is there", func(*v1alpha1.AcmeOrder) bool { return true })
	s.Finalize(o)
	if o = s.Ended(o); o.Status.State != v1alpha1.AcmeOrderValid {
		t.Errorf("the order is %+v", o.Status)
	}
	met := o.Status.Authorizations[0].Challenges[0]
	if met.Record == nil || !strings.HasPrefix(met.Record.Address, "127.0.0.1:") || len(met.Record.Hops) != 1 || met.Attempts != 1 {
		t.Errorf("the record is %+v of %+v", met.Record, met)
	}
}

// A file that is not there yet is looked for again; the client sees why.
func TestLate(t *testing.T) {
	s := newSite(t, true, func(s *site, n int32, token string) (int, string) {
		if n < 2 {
			return 404, "later"
		}
		return 200, token + "." + s.thumbprint
	})
	o := s.begin(t)
	s.Until(o, "tells of the first attempt", func(o *v1alpha1.AcmeOrder) bool {
		c := o.Status.Authorizations[0].Challenges[0]
		return c.Attempts > 1 || c.Error != nil && c.Error.Type == rfc8555.ProblemUnauthorized
	})
	if a := s.ended(o); a.State != rfc8555.StateValid || a.Challenges[0].Attempts != 2 || s.requests.Load() != 2 {
		t.Errorf("after %d requests the authorization is %+v", s.requests.Load(), a)
	}
}

// A wrong answer ends the order at once, and so does an address to which the server
// may not connect, without a connection.
func TestInvalid(t *testing.T) {
	wrong := func(_ *site, _ int32, token string) (int, string) { return 200, token + ".wrong" }
	for _, tc := range []struct {
		reason   string
		local    bool
		kind     string
		requests int32
	}{
		{"a wrong answer", true, rfc8555.ProblemIncorrectResponse, 1},
		{"an address of this host", false, rfc8555.ProblemConnection, 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := newSite(t, tc.local, wrong)
			o := s.begin(t)
			a := s.ended(o)
			if c := a.Challenges[0]; a.State != rfc8555.StateInvalid || c.Error == nil || c.Error.Type != tc.kind || c.Attempts != 1 || s.requests.Load() != tc.requests {
				t.Errorf("after %d requests the authorization is %+v", s.requests.Load(), a)
			}
			if o = s.Ended(o); o.Status.State != v1alpha1.AcmeOrderInvalid || strings.Contains(o.Status.Error.Detail, "wrong") {
				t.Errorf("the order is %+v", o.Status)
			}
		})
	}
}

// A server that is stopped while a challenge is tried goes on when it is back.
func TestRestart(t *testing.T) {
	var back atomic.Bool
	server := apitest.Start(t)
	s := newSiteAt(t, server, true, func(s *site, _ int32, token string) (int, string) {
		if !back.Load() {
			return 404, "later"
		}
		return 200, token + "." + s.thumbprint
	})
	o := s.begin(t)
	s.Until(o, "was tried", func(o *v1alpha1.AcmeOrder) bool { return o.Status.Authorizations[0].Challenges[0].Attempts > 0 })
	server.Restart(t)
	back.Store(true)
	s.Connect()
	if a := s.ended(o); a.State != rfc8555.StateValid {
		t.Errorf("the authorization is %+v", a)
	}
}

// The API, etcd, networks that the configuration reserves, and names of the cluster are not
// reached, though other private addresses are.
func TestReserved(t *testing.T) {
	reserving := apitest.Start(t, func(c *server.Config) {
		c.ACMEServer.ReservedNetworks, c.PodSigners.ClusterDomain = []string{"10.96.0.0/12"}, "k8s.example"
	})
	s := newSiteAt(t, reserving, false, func(*site, int32, string) (int, string) { return 200, "" })
	for _, name := range []string{"10.96.0.1", "web.shop.svc.k8s.example"} {
		verdict := s.ended(s.beginFor(t, name))
		i := slices.IndexFunc(verdict.Challenges, func(c v1alpha1.AcmeChallenge) bool { return c.Type == rfc8555.ChallengeHTTP01 })
		if c := verdict.Challenges[i]; c.Error == nil || !strings.Contains(c.Error.Detail, "not permitted") || c.Attempts != 1 {
			t.Errorf("%s: %+v after %d attempts", name, c.Error, c.Attempts)
		}
	}
	if n := s.requests.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}
