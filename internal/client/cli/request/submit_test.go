package request

import (
	"errors"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/pki"
)

func TestApprove(t *testing.T) {
	conflict := apierrors.NewConflict(resource, "alice", errors.New("modified"))
	tests := []struct {
		reason     string
		approveErr []error
		want       int
	}{
		{reason: "approves once", want: 1},
		{reason: "tries again when somebody else wrote meanwhile", approveErr: []error{conflict, conflict}, want: 1},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			b := newBench(t)
			b.Approve, b.Wait = true, 0
			b.server.approveErr = tt.approveErr
			if err := b.run(); err != nil {
				t.Fatal(err)
			}
			if len(b.server.approvals) != tt.want {
				t.Fatalf("approvals = %v", b.server.approvals)
			}
			got := b.server.approvals[0]
			if got.Type != certificatesv1.CertificateApproved || got.Status != "True" || got.Reason != "CertplaneApprove" {
				t.Errorf("condition = %+v", got)
			}
		})
	}
}

func TestApproveIsForbidden(t *testing.T) {
	b := newBench(t)
	b.Approve = true
	b.server.approveErr = []error{apierrors.NewForbidden(resource, "alice", errors.New(`user not permitted to approve requests with signerName "example.com/test"`))}
	err := b.run()
	wantEnd(t, err, exit.General, "not permitted to approve")
	wantNext(t, err, "certplane approve alice-x7k2p")
	wantNext(t, err, "again alice-x7k2p")
	if _, err := loadKey(b.path(keyName)); err != nil {
		t.Errorf("the request is stored, but its key is gone: %v", err)
	}
}

func TestApproveLeavesDecisions(t *testing.T) {
	b := newBench(t)
	b.Name, b.Wait = "alice", 0
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	condition(certificatesv1.CertificateDenied, "No", "")(b.server, watch.NewRaceFreeFake())
	b.KeyFile, b.Approve, b.Wait = b.path(keyName), true, time.Minute
	wantEnd(t, b.run(), exit.Denied, "denied")
	if len(b.server.approvals) != 0 {
		t.Errorf("approvals of a denied request: %v", b.server.approvals)
	}
}

func TestResume(t *testing.T) {
	tests := []struct {
		reason string
		change func(*bench)
		want   string // how the stored request differs; "" if it is taken up
	}{
		{reason: "the same options and key", change: func(*bench) {}},
		{reason: "usages in another order", change: func(b *bench) {
			b.Options.Usages = []certificatesv1.KeyUsage{"client auth", "digital signature", "client auth"}
		}},
		{reason: "another key", change: func(b *bench) { b.KeyFile = ""; b.Out += "/2" }, want: "another key"},
		{reason: "another signer", change: func(b *bench) { b.Options.Signer = "example.com/other" }, want: "another signer, example.com/test"},
		{reason: "another subject", change: func(b *bench) { b.Options.CommonName = "bob" }, want: "another subject, CN=alice,O=dev"},
		{reason: "another name", change: func(b *bench) { b.Options.EmailAddresses = []string{"a@example.com"} }, want: "other alternative names"},
		{reason: "other usages", change: func(b *bench) { b.Options.Usages = []certificatesv1.KeyUsage{"server auth"} }, want: "other usages"},
		{reason: "a duration", change: func(b *bench) { b.Options.Expires = time.Hour }, want: "another duration"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			b := newBench(t)
			b.Name, b.Wait = "alice", 0
			if err := b.run(); err != nil {
				t.Fatal(err)
			}
			b.KeyFile, b.Wait = b.path(keyName), time.Minute
			tt.change(b)
			b.server.onWatch = []step{signed(newAuthority(t))}
			err := b.run()
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				read(t, b.path(chainName))
				return
			}
			wantEnd(t, err, exit.General, "exists already and has "+tt.want)
			wantNext(t, err, "--name")
			if b.KeyFile == "" {
				wantNone(t, b.path(keyName))
			}
		})
	}
}

func TestResumeComparesDurations(t *testing.T) {
	b := newBench(t)
	b.Name, b.Wait, b.Options.Expires = "alice", 0, time.Hour
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	b.KeyFile = b.path(keyName)
	if err := b.run(); err != nil {
		t.Errorf("the same duration: %v", err)
	}
	b.Options.Expires = 2 * time.Hour
	wantEnd(t, b.run(), exit.General, "another duration")
}

// Approving by name alone would approve any request that has the name by now.
func TestApproveOnlyItsOwn(t *testing.T) {
	b := newBench(t)
	b.Approve = true
	b.server.approveErr = []error{apierrors.NewConflict(resource, "alice-x7k2p", errors.New("modified"))}
	b.server.onConflict = func() { replaced(b.server, watch.NewRaceFreeFake()) }
	wantEnd(t, b.run(), exit.General, "another one now has its name")
	if len(b.server.approvals) != 0 {
		t.Errorf("somebody else's request was approved: %v", b.server.approvals)
	}
}

// The answer to the submission is lost, but the request is stored.
func TestLostAnswerIsFoundAgain(t *testing.T) {
	b := newBench(t)
	b.Name = "alice"
	b.server.createErr, b.server.storeAnyway = []error{errors.New("connection reset by peer")}, true
	err := b.run()
	wantNext(t, err, "again alice "+b.path(keyName))
	b.KeyFile = b.path(keyName)
	b.server.onWatch = []step{signed(newAuthority(t))}
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	read(t, b.path(chainName))
}

func TestLostAnswerOfUnnamed(t *testing.T) {
	b := newBench(t)
	b.server.createErr = []error{errors.New("connection reset by peer")}
	wantNext(t, b.run(), "add: --key "+b.path(keyName))
	if _, err := loadKey(b.path(keyName)); err != nil {
		t.Errorf("the request may have been stored, but its key is gone: %v", err)
	}
}

func TestSurprisesAreWarnedOf(t *testing.T) {
	ca := newAuthority(t)
	tests := []struct {
		reason string
		change func(*issue)
		want   string
	}{
		{"a shorter life", func(i *issue) { i.lifetime = 30 * time.Minute }, "is valid for 35m, requested was 2h"},
		{"another subject", func(i *issue) { i.subject.Organizations = nil }, `subject is "CN=alice", requested was "CN=alice,O=dev"`},
		{"a name less", func(i *issue) { i.subject.DNSNames = nil }, "lacks the name DNS:alice.example.com"},
		{"a usage less", func(i *issue) { i.usages = []certificatesv1.KeyUsage{"server auth"} }, `lacks the usage "digital signature"`},
		{"a usage more", func(i *issue) { i.usages = append(i.usages, "client auth") }, `has the usage "client auth", which was not requested`},
		{"not valid yet", func(i *issue) { i.now = testNow.Add(20 * time.Minute) }, "which excludes now"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			b := newBench(t)
			b.Options.Expires, b.Options.DNSNames = 2*time.Hour, []string{"alice.example.com"}
			b.server.onWatch = []step{signed(ca.with(tt.change))}
			if err := b.run(); err != nil {
				t.Fatal(err)
			}
			if got := b.stderr.String(); !strings.Contains(got, tt.want) || strings.Count(got, "\n") != 1 {
				t.Errorf("warnings = %q, want only %q", got, tt.want)
			}
			read(t, b.path(chainName))
		})
	}
}

func TestDefaultUsages(t *testing.T) {
	rsa, err := pki.GenerateKey(pki.RSA2048)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason    string
		signer    string
		key       interface{}
		namesHost bool
		want      string
	}{
		{"API clients", certificatesv1.KubeAPIServerClientSignerName, ec.Public(), true, "digital signature,client auth"},
		{"kubelets as clients", certificatesv1.KubeAPIServerClientKubeletSignerName, ec.Public(), false, "digital signature,client auth"},
		{"kubelets as servers", certificatesv1.KubeletServingSignerName, ec.Public(), false, "digital signature,server auth"},
		{"RSA can encipher keys", certificatesv1.KubeletServingSignerName, rsa.Public(), true, "digital signature,key encipherment,server auth"},
		{"a host from any signer", "example.com/any", ec.Public(), true, "digital signature,server auth"},
		{"something without a host", "example.com/any", ec.Public(), false, "digital signature,client auth"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			var got []string
			for _, usage := range DefaultUsages(tt.signer, tt.key, tt.namesHost) {
				got = append(got, string(usage))
			}
			if strings.Join(got, ",") != tt.want {
				t.Errorf("DefaultUsages = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestGenerateName(t *testing.T) {
	tests := []struct{ reason, subject, want string }{
		{"a plain name", "alice", "alice-"},
		{"a node", "system:node:Worker_1", "system-node-worker-1-"},
		{"nothing usable", "ü://", "csr-"},
		{"no subject at all", "", "csr-"},
		{"longer than the server keeps", strings.Repeat("a", 80), strings.Repeat("a", 57) + "-"},
		{"cut at a separator", strings.Repeat("a", 56) + ".b", strings.Repeat("a", 56) + "-"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if got := generateName(tt.subject); got != tt.want {
				t.Errorf("generateName(%q) = %q, want %q", tt.subject, got, tt.want)
			}
		})
	}
}
