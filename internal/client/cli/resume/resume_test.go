package resume_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/client/cli/resume"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/rights"
)

// A list that is still published at a URL says what to revoke again.
func TestResumeFromURL(t *testing.T) {
	s := apitest.Start(t)
	ca := s.ClientCA(t)
	begins := time.Now().Add(-2 * time.Hour).Truncate(time.Second)
	if begins.Before(ca.Certificate().NotBefore) {
		begins = ca.Certificate().NotBefore
	}
	linted, err := ca.Lists().Lint(pki.List{
		Number: big.NewInt(begins.UnixMilli()), ThisUpdate: begins, NextUpdate: begins.Add(24 * time.Hour),
		Entries: []pki.ListEntry{{Serial: []byte{0x47, 0x11}, Time: begins, Reason: pki.ReasonSuperseded}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := linted.Sign(t.Context(), rand.Reader, func(context.Context, pki.SignedList) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	published := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/list.crl" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(der)
	}))
	defer published.Close()

	api, err := certificates.Connect(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	// From the mark on, no list is signed any more: the CA would stay unknown.
	apitest.Eventually(t, "the CA has a list", func() bool {
		lists := &inventoryv1alpha1.RevocationListList{}
		return api.List(t.Context(), lists) == nil && slices.ContainsFunc(lists.Items, func(l inventoryv1alpha1.RevocationList) bool {
			return l.Name == revocation.ListID(ca.Certificate())
		})
	})
	mark := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: rights.ServeNamespace, Name: rights.RestoredStore}}
	if err := api.Create(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	run := func(from string) error {
		return resume.Run(t.Context(), resume.Config{From: []string{from}, Client: api, Now: time.Now(), Stdout: &out})
	}
	if err := run(published.URL + "/"); err == nil || !strings.Contains(err.Error(), published.URL+"/ answers 404 Not Found") {
		t.Errorf("another path: %v", err)
	}
	if err := run(published.URL + "/list.crl"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), ": 1 certificates revoked again, 0 were known") {
		t.Error(out.String())
	}
	all := &v1alpha1.RevocationList{}
	if err := api.List(t.Context(), all); err != nil || len(all.Items) != 1 || all.Items[0].Spec.Certificates[0].SerialNumber != "4711" {
		t.Errorf("%v: %+v", err, all.Items)
	}
}
