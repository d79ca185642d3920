package decide_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/decide"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/server"
)

const example = "../../../../deploy/examples/cert-manager/approve-by-hand/"

// The example lets a person decide about all requests, a program about the
// requests to one issuer, and no other user about any.
func TestApproveByHand(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = controllers(t) })
	admin := connect(t, s.Admin(t))
	apply(t, s.Admin(t), "rights.yaml", "issuers.yaml")
	ann := connect(t, s.As(t, "ann"))
	bot := connect(t, s.As(t, "system:serviceaccount:shop:approver-bot", "system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"))

	approve := decide.Decision{Kind: cmv1.CertificateRequestConditionApproved, Reason: "Checked", Message: "looks good"}
	deny := decide.Decision{Kind: cmv1.CertificateRequestConditionDenied, Reason: "Unknown", Message: "nobody knows it"}
	by := func(who client.Client, name string, d decide.Decision) error {
		return decide.Requests(t.Context(), who, "shop", named(name), d, time.Now(), io.Discard)
	}
	apitest.Eventually(t, "the root is asked for", func() bool {
		return admin.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "root-1"}, &cmv1.CertificateRequest{}) == nil
	})
	if err := by(bot, "root-1", approve); err == nil || !strings.Contains(err.Error(), "does not have permissions to set approved/denied conditions") {
		t.Errorf("the bot approves for another issuer: %v", err)
	}
	nobody := connect(t, s.As(t, "nobody"))
	err := decide.Requests(t.Context(), nobody, "shop", named("root-1", "web"), approve, time.Now(), io.Discard)
	var text strings.Builder
	exit.Report(&text, err)
	for _, part := range []string{
		"setting Approved on CertificateRequest shop/root-1: ", "setting Approved on CertificateRequest shop/web: ",
		"To see the required permissions: certplane explain certificaterequest -n shop root-1\n",
	} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("it does not say %q: %s", part, text.String())
		}
	}
	if err := by(ann, "root-1", approve); err != nil {
		t.Fatal(err)
	}
	becomes(t, admin, "root-1", cmv1.CertificateRequestReasonIssued)
	apply(t, s.Admin(t), "certificates.yaml")
	for _, name := range []string{"web-1", "mail-1"} {
		apitest.Eventually(t, name+" is asked for", func() bool {
			return admin.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &cmv1.CertificateRequest{}) == nil
		})
	}
	if err := by(bot, "web-1", approve); err != nil {
		t.Error(err)
	}
	if err := by(bot, "mail-1", deny); err != nil {
		t.Error(err)
	}
	becomes(t, admin, "web-1", cmv1.CertificateRequestReasonIssued)
	becomes(t, admin, "mail-1", cmv1.CertificateRequestReasonDenied)
	if err := by(ann, "mail-1", approve); err == nil || !strings.Contains(err.Error(), "a decision cannot be changed") {
		t.Errorf("a decision is changed: %v", err)
	}
}

// controllers returns the controllers that the example's configuration chooses.
func controllers(t *testing.T) []string {
	t.Helper()
	var cfg struct{ Controllers []string }
	if err := yaml.Unmarshal(read(t, "server.yaml"), &cfg); err != nil || len(cfg.Controllers) == 0 {
		t.Fatalf("%+v, %v", cfg, err)
	}
	return cfg.Controllers
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(example + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// named returns the CertificateRequests with these names.
func named(names ...string) []decide.Name {
	var all []decide.Name
	for _, name := range names {
		all = append(all, decide.Name{Kind: &rights.IssuerRequests, Name: name})
	}
	return all
}

func connect(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	connected, err := decide.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return connected
}

// apply creates the objects in files of the example.
func apply(t *testing.T, cfg *rest.Config, files ...string) {
	t.Helper()
	anything, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, document := range bytes.Split(read(t, file), []byte("\n---\n")) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(document, &object.Object); err != nil {
				t.Fatal(err)
			}
			if err := anything.Create(t.Context(), object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
}

func becomes(t *testing.T, c client.Client, name, reason string) {
	t.Helper()
	cr := &cmv1.CertificateRequest{}
	apitest.Eventually(t, name+" is "+reason, func() bool {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, cr); err != nil {
			t.Fatal(err)
		}
		return certmanager.ReadyReason(cr) == reason
	})
}
