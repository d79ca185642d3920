package signlog_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/issuing/signlog"
	"github.com/certplane/certplane/internal/pki"
)

func TestRecords(t *testing.T) {
	registry := prometheus.NewRegistry()
	record, err := signlog.New(registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "test", apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ctx := log.IntoContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out), textlogger.Verbosity(1))))
	why := pki.Purpose{Signer: "example.com/signer", Requester: "alice", Kind: "CertificateSigningRequest", Name: "request", UID: "42"}
	if err := record(ctx, ca.Certificate(), why); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Signed certificate", `signer="example.com/signer"`, `requester="alice"`, `requestKind="CertificateSigningRequest"`, `requestName="request"`,
		`uid="42"`, `sha256="` + pki.Fingerprint(ca.Certificate()),
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log has no %s: %s", want, out.String())
		}
	}
	for _, unknown := range []pki.Purpose{{}, {Signer: "example.com/signer"}, {Use: "root CA"}} {
		if record(ctx, ca.Certificate(), unknown) == nil {
			t.Errorf("recorded a certificate for %+v", unknown)
		}
	}
	if strings.Contains(out.String(), "requestNamespace") {
		t.Errorf("the log names what there is not: %s", out.String())
	}
	const want = `
# HELP certplane_certificates_signed_total Number of certificates signed, whether or not they could be stored, by signer.
# TYPE certplane_certificates_signed_total counter
certplane_certificates_signed_total{signer="example.com/signer"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
