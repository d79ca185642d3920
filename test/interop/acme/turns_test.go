package acme

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiutil "github.com/cert-manager/cert-manager/pkg/api/util"
	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What one program has presented, the other cleans up when it is deleted.
func TestTakeoverOfDeleted(t *testing.T) {
	for _, method := range methods {
		for _, from := range []struct{ first, second program }{{certManager, controllers}, {controllers, certManager}} {
			t.Run(method.name+"/"+from.first.name, func(t *testing.T) {
				s := method.set(t, deleted)
				stageOf(t, presented).reach(s, from.first)
				if len(s.left()) == 0 {
					t.Fatal("nothing is presented")
				}
				if from.first.name == certManager.name {
					s.spellFinalizersAsBefore()
				}
				if err := s.admin.Delete(t.Context(), s.cert); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the challenges are being deleted", func() bool {
					return !slices.ContainsFunc(s.challenges(), func(ch acmev1.Challenge) bool { return ch.DeletionTimestamp == nil })
				})
				if len(s.challenges()) != len(s.cert.Spec.DNSNames) {
					t.Fatal("challenges are gone before anything has cleaned them up")
				}
				defer from.second.run(s.world, everything...)()
				s.leftovers()
				s.cleaned()
			})
		}
	}
}

func stageOf(t *testing.T, name string) stage {
	t.Helper()
	i := slices.IndexFunc(stages, func(s stage) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("there is no stage %q", name)
	}
	return stages[i]
}

// spellFinalizersAsBefore gives the Challenges the finalizer of old versions of
// cert-manager.
func (w *world) spellFinalizersAsBefore() {
	w.t.Helper()
	for _, ch := range w.challenges() {
		if !slices.Contains(ch.Finalizers, acmev1.ACMEDomainQualifiedFinalizer) {
			w.t.Errorf("%s has the finalizers %q", ch.Name, ch.Finalizers)
		}
		before := ch.DeepCopy()
		ch.Finalizers = []string{acmev1.ACMELegacyFinalizer}
		if err := w.admin.Patch(w.t.Context(), &ch, client.MergeFrom(before)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// The programs take turns: each makes a step, and then it is the other's turn.
func TestTurns(t *testing.T) {
	for _, programs := range [][2]program{{certManager, controllers}, {controllers, certManager}} {
		t.Run(programs[0].name, func(t *testing.T) {
			for attempt := 1; !takeTurns(t, programs); attempt++ {
				if attempt == 5 {
					t.Fatal("cert-manager has given up each time")
				}
			}
		})
	}
}

// takeTurns reports false if the request has failed: cert-manager takes a
// Challenge for expired if it accepts it a second time, after the other program
// or because it was stopped during the first.
func takeTurns(t *testing.T, programs [2]program) bool {
	t.Helper()
	s := byPods(t, "")
	account, turns := "", 0
	for seen := s.progress(); !strings.HasPrefix(seen, "ready"); turns++ {
		if turns == 100 {
			t.Fatalf("no end after %d turns: %s", turns, seen)
		}
		program := programs[turns%2]
		stop := program.run(s.world, everything...)
		before := seen
		eventually(t, program.name+" makes a step from "+before, func() bool {
			seen = s.progress()
			return seen != before
		})
		stop()
		seen = s.progress()
		t.Logf("turn %d: %s: %s", turns, program.name, seen)
		if strings.Contains(seen, " Failed") {
			t.Log("cert-manager has given up a Challenge, so the request has failed: starting again")
			return false
		}
		if uri := s.accountURI(); account == "" {
			account = uri
		} else if uri != account {
			t.Fatalf("the account is %q, was %q", uri, account)
		}
	}
	if turns < 3 {
		t.Errorf("only %d turns", turns)
	}
	defer programs[turns%2].run(s.world, everything...)()
	s.reaches(s.cert, 1)
	s.leftovers()
	s.cleaned()
	if found := len(s.orders()); found != 1 {
		t.Errorf("there are %d orders", found)
	}
	return true
}

// progress describes how far the work on the Certificate is.
func (s *scene) progress() string {
	s.t.Helper()
	var said []string
	s.get(s.cert)
	for _, condition := range s.cert.Status.Conditions {
		said = append(said, fmt.Sprintf("%s=%s", condition.Type, condition.Status))
	}
	slices.Sort(said)
	if s.cert.Status.Revision != nil {
		said = append([]string{"ready"}, said...)
	}
	said = append(said, "account="+s.accountURI())
	var found cmv1.CertificateRequestList
	s.list(&found)
	for _, request := range found.Items {
		said = append(said, fmt.Sprintf("request %s approved=%v %s", request.Name, apiutil.CertificateRequestIsApproved(&request), apiutil.CertificateRequestReadyReason(&request)))
	}
	for _, order := range s.orders() {
		said = append(said, fmt.Sprintf("order %q url=%v", order.Status.State, order.Status.URL != ""))
	}
	for _, ch := range s.challenges() {
		said = append(said, fmt.Sprintf("challenge %s %q processing=%v presented=%v", ch.Spec.DNSName, ch.Status.State, ch.Status.Processing, ch.Status.Presented))
	}
	return strings.Join(said, ", ")
}

// accountURI returns the address of the issuer's account, or "".
func (s *scene) accountURI() string {
	s.t.Helper()
	issuer := &cmv1.ClusterIssuer{}
	issuer.Name = s.cert.Spec.IssuerRef.Name
	s.get(issuer)
	if issuer.Status.ACME == nil {
		return ""
	}
	return issuer.Status.ACME.URI
}
