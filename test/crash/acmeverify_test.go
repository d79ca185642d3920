package crash

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/acmetest"
)

// wrong reports something that is wrong with the round.
func (w *acmeWorld) wrong(format string, args ...any) {
	w.Helper()
	w.Errorf("%s, killed at %s: %s\n%s", w.name, w.killedAt(), fmt.Sprintf(format, args...), w.again())
}

func (w *acmeWorld) killedAt() string { return fmt.Sprintf("%q", w.struck) }

// again returns the command that runs the round again.
func (w *acmeWorld) again() string {
	return "Run this round again: go test -count=1 -run '^TestKillDuringOrder$' ./test/crash -acme-round '" + planText(w.plan) + "'"
}

// verify checks the objects after a round.
func (w *acmeWorld) verify() {
	w.Helper()
	w.verifyOrders()
	w.verifyCertificate()
	if left := w.names.AllTXT(); len(left) > 0 {
		w.wrong("TXT records are left: %q", left)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tokens) == 0 {
		w.wrong("the CA has not asked the responder")
	}
	for token, host := range w.tokens {
		if status, body, err := w.ask(host, token); err != nil || status != http.StatusNotFound {
			w.wrong("the responder answers %s with %d, %q, %v", token, status, body, err)
		}
	}
	clear(w.tokens)
}

// verifyOrders checks the CA's orders of a round. If a placed order was not stored, it is
// placed again; the CA drops the first one.
func (w *acmeWorld) verifyOrders() {
	w.Helper()
	placed, signed, most, least := 0, 0, 1, 1
	for _, o := range w.ca.Orders() {
		if !slices.Contains(o.Names, w.name+".example.com") {
			continue
		}
		placed++
		if o.Signed {
			signed++
		}
	}
	for _, m := range w.struck {
		if m.what != string(acmetest.NewOrder) {
			continue
		}
		switch m.when {
		case unanswered:
			least, most = 2, 2
		case answered: // it may have been stored
			most = 2
		}
	}
	if placed < least || placed > most {
		w.wrong("%d orders were placed, want %d to %d", placed, least, most)
	}
	if signed != 1 {
		w.wrong("the CA has signed %d certificates", signed)
	}
	w.orders++
	w.twice += placed - 1
	if accounts := len(w.ca.Accounts()); accounts != w.rounds {
		w.wrong("%d issuers have %d accounts", w.rounds, accounts)
	}
	var orders acmev1.OrderList
	if err := w.api.List(w.Context(), &orders); err != nil {
		w.Fatal(err)
	}
	if len(orders.Items) != w.rounds {
		w.wrong("there are %d Orders for %d Certificates", len(orders.Items), w.rounds)
	}
}

func (w *acmeWorld) verifyCertificate() {
	w.Helper()
	secret := &corev1.Secret{}
	if err := w.api.Get(w.Context(), client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: w.name + secretSuffix}, secret); err != nil {
		w.Fatal(err)
	}
	block, rest := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		w.Fatalf("%s: the Secret has no certificate", w.name)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.Fatal(err)
	}
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(w.ca.Roots())
	others.AppendCertsFromPEM(rest)
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "any." + w.name + ".example.com", Roots: roots, Intermediates: others}); err != nil {
		w.wrong("%v", err)
	}
}

// report logs what was done.
func (w *acmeWorld) report() {
	w.Helper()
	var text strings.Builder
	for _, what := range steps {
		fmt.Fprintf(&text, "\n  %-26s", what)
		for _, when := range whens {
			fmt.Fprintf(&text, "%4d", w.times[moment{what, when}])
		}
	}
	w.Logf("kills (SIGKILL): %d; not done, without an answer, answered:%s\nCertificates: %d, placed a second time because nobody knew of the first: %d, longest time for a kill: %v",
		w.kills, text.String(), w.orders, w.twice, w.longest.Round(time.Millisecond))
}
