package responder_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/live"
	"github.com/certplane/certplane/internal/acme/solver/responder"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/acme/solver/solvertest"
)

// public is a network in which all names have one address, with a server.
type public struct {
	err    error // of connections
	server string
}

func (p *public) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
}

func (p *public) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	if p.err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: p.err}
	}
	return (&net.Dialer{}).DialContext(ctx, network, p.server)
}

func (p *public) check() selfcheck.HTTP {
	return selfcheck.HTTP{Network: selfcheck.Network{Resolver: p, Dial: p.dial}, UserAgent: userAgent}
}

func notFound(t *testing.T) string {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func after(presented time.Duration) solver.Task {
	return solver.Task{Challenge: challenge("a.example.com"), Now: now.Add(presented)}
}

const getting = "failed to perform self check GET request 'http://a.example.com/.well-known/acme-challenge/" + token + "': "

func TestCheck(t *testing.T) {
	elsewhere := notFound(t)
	for _, tc := range []struct {
		reason    string
		policy    selfcheck.Policy
		known     bool
		err       error
		server    string // empty: this one
		presented time.Duration
		want      string
		note      string
	}{
		{reason: "both answer", policy: selfcheck.Full, known: true},
		{reason: "this one has no such challenge", policy: selfcheck.Full, presented: time.Hour, want: "the built-in responder does not answer at acme.http01.listen[0]: wrong status code '404', expected '200'"},
		{reason: "the name leads elsewhere", policy: selfcheck.Full, known: true, server: elsewhere, presented: time.Hour, want: "wrong status code '404', expected '200'"},
		{reason: "a host that does not reach its public address, for now", policy: selfcheck.Full, known: true, err: syscall.ECONNREFUSED, presented: 59 * time.Second, want: getting + "connecting to 192.0.2.1:80: connection refused"},
		{reason: "a host that does not reach its public address", policy: selfcheck.Full, known: true, err: syscall.ECONNREFUSED, presented: time.Minute, note: "the public address cannot be reached from here, but this server answers, so the ACME server is asked to look: " + getting + "connecting to 192.0.2.1:80: connection refused"},
		{reason: "connections that time out count too", policy: selfcheck.Full, known: true, err: context.DeadlineExceeded, presented: time.Minute, note: "the public address cannot be reached from here, but this server answers, so the ACME server is asked to look: " + getting + "connecting to 192.0.2.1:80: timed out"},
		{reason: "this one is enough", policy: selfcheck.Local, known: true, server: elsewhere},
		{reason: "this one is missing", policy: selfcheck.Local, want: "the built-in responder does not answer at acme.http01.listen[0]: wrong status code '404', expected '200'"},
		{reason: "nothing is checked", policy: selfcheck.None},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := start(t, func(s *responder.Settings) { s.SelfCheck = tc.policy })
			world := &public{err: tc.err, server: tc.server}
			if tc.server == "" {
				world.server = f.address
			}
			if tc.known {
				f.index.Set(challenge("a.example.com"))
			} else {
				go func() { // lets the time pass for a question that waits
					for t.Context().Err() == nil && !f.clock.HasWaiters() {
						time.Sleep(time.Millisecond)
					}
					f.clock.Step(2 * time.Second)
				}()
			}
			found, err := f.Solver(world.check()).Check(t.Context(), after(tc.presented))
			solvertest.AssertError(t, err, tc.want)
			if diff := cmp.Diff(solver.Found{Note: tc.note}, found); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A public address that has given a wrong answer can be reached. The minute
// begins again.
func TestWrongAnswerInBetween(t *testing.T) {
	f := start(t)
	f.index.Set(challenge("a.example.com"))
	world := &public{server: notFound(t)}
	s := f.Solver(world.check())
	if _, err := s.Check(t.Context(), after(55*time.Second)); err == nil {
		t.Fatal("the wrong answer counts")
	}
	world.err = syscall.ECONNREFUSED
	if _, err := s.Check(t.Context(), after(70*time.Second)); !selfcheck.IsUnreachable(err) {
		t.Errorf("15 seconds later: %v", err)
	}
	if found, err := s.Check(t.Context(), after(115*time.Second)); err != nil || found.Note == "" {
		t.Errorf("a minute later: %v", err)
	}
}

// Without a listener nothing is sent to the ACME server, and the message says
// what to configure.
func TestOff(t *testing.T) {
	r, err := responder.New(responder.Config{Settings: responder.DefaultSettings(), Index: live.NewIndex()})
	if err != nil {
		t.Fatal(err)
	}
	const want = `acme.http01.listen is empty, so nothing answers HTTP-01 challenges here: set it to an address such as ":80", or to one to which a web server passes requests for /.well-known/acme-challenge/`
	s := r.Solver((&public{}).check())
	solvertest.AssertError(t, s.Present(t.Context(), after(0)), want)
	_, err = s.Check(t.Context(), after(0))
	solvertest.AssertError(t, err, want)
	if err := r.Ready(nil); err != nil {
		t.Errorf("the process is not ready: %v", err)
	}
}

func TestSolverWritesNothing(t *testing.T) {
	s := start(t).Solver((&public{}).check())
	if where, err := s.Prepare(t.Context(), after(0)); where != "" || err != nil {
		t.Errorf("Prepare returns %q, %v", where, err)
	}
	if err := s.Present(t.Context(), after(0)); err != nil {
		t.Error(err)
	}
	if err := s.CleanUp(t.Context(), after(0)); err != nil {
		t.Error(err)
	}
}

func TestIgnoredFields(t *testing.T) {
	name := "nginx"
	for _, tc := range []struct {
		reason string
		solver *acmev1.ACMEChallengeSolverHTTP01
		want   []string
	}{
		{"not HTTP-01", nil, nil},
		{"the manifests of most users", &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{}}, nil},
		{"an ingress", &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{
			ServiceType: "NodePort", IngressClassName: &name, Class: &name, Name: name,
			PodTemplate: &acmev1.ACMEChallengeSolverHTTP01IngressPodTemplate{}, IngressTemplate: &acmev1.ACMEChallengeSolverHTTP01IngressTemplate{},
		}}, strings.Fields("http01.ingress.serviceType http01.ingress.ingressClassName http01.ingress.class http01.ingress.name http01.ingress.podTemplate http01.ingress.ingressTemplate")},
		{"a route", &acmev1.ACMEChallengeSolverHTTP01{GatewayHTTPRoute: &acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute{
			ServiceType: "NodePort", Labels: map[string]string{"a": "b"}, PodTemplate: &acmev1.ACMEChallengeSolverHTTP01IngressPodTemplate{},
		}}, strings.Fields("http01.gatewayHTTPRoute.serviceType http01.gatewayHTTPRoute.labels http01.gatewayHTTPRoute.podTemplate")},
	} {
		if diff := cmp.Diff(tc.want, responder.IgnoredFields(tc.solver)); diff != "" {
			t.Errorf("%s: %s", tc.reason, diff)
		}
	}
}
