package hostcert

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/agent/hook"
	"github.com/certplane/certplane/internal/agent/manifests"
	"github.com/certplane/certplane/internal/api/agenthost"
)

// nginx is a certificate with what a certificate must have.
func nginx(edit func(*Certificate)) Certificate {
	c := Certificate{Signer: "example.com/hosts", Directory: "/etc/nginx/tls"}
	if edit != nil {
		edit(&c)
	}
	return c
}

func TestDefaults(t *testing.T) {
	pods, err := Pods([]Certificate{nginx(nil)})
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	pod := pods[0]
	if pod.Key() != "default/etc-nginx-tls" || pod.Spec.ServiceAccountName != "default" || pod.Dirs["tls"] != "/etc/nginx/tls" || pod.Hash == "" {
		t.Errorf("pod %s of %s in %v", pod.Key(), pod.Spec.ServiceAccountName, pod.Dirs)
	}
	want := []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{
		SignerName: "example.com/hosts", KeyType: "ECDSAP256", CertificateChainPath: "tls.crt", KeyPath: "tls.key",
	}}}
	if diff := cmp.Diff(want, pod.Spec.Volumes[0].Projected.Sources); diff != "" || pod.Spec.SecurityContext != nil {
		t.Errorf("context %v, sources (-want +got):\n%s", pod.Spec.SecurityContext, diff)
	}
}

func TestEverything(t *testing.T) {
	pods, err := Pods([]Certificate{{
		Name: "web", Namespace: "shop", ServiceAccount: "web", Signer: "example.com/hosts",
		DNSNames: []string{"www.example.com", "*.example.com"}, IPAddresses: []string{"192.0.2.7", "2001:db8::1"},
		KeyType: "RSA3072", Duration: metav1.Duration{Duration: 48 * time.Hour}, Directory: "/srv/tls",
		Files: Files{Bundle: "site.pem", Roots: "ca.pem"}, Owner: "root", Group: "7", Mode: ptr.To[int32](0o440),
	}})
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	pod := pods[0]
	if pod.Key() != "shop/web" || pod.Spec.ServiceAccountName != "web" {
		t.Errorf("pod %s of %s", pod.Key(), pod.Spec.ServiceAccountName)
	}
	want := corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o440), Sources: []corev1.VolumeProjection{
		{PodCertificate: &corev1.PodCertificateProjection{
			SignerName: "example.com/hosts", KeyType: "RSA3072", CredentialBundlePath: "site.pem", MaxExpirationSeconds: ptr.To[int32](172800),
			UserAnnotations: map[string]string{agenthost.DNSNamesAnnotation: "www.example.com,*.example.com", agenthost.IPAddressesAnnotation: "192.0.2.7,2001:db8::1"},
		}},
		{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{SignerName: ptr.To("example.com/hosts"), LabelSelector: &metav1.LabelSelector{}, Path: "ca.pem"}},
	}}
	if diff := cmp.Diff(want, *pod.Spec.Volumes[0].Projected); diff != "" {
		t.Errorf("volume (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&corev1.PodSecurityContext{RunAsUser: ptr.To[int64](0), FSGroup: ptr.To[int64](7)}, pod.Spec.SecurityContext); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
}

func TestRevocationLists(t *testing.T) {
	pods, err := Pods([]Certificate{nginx(func(c *Certificate) { c.Files = Files{CRL: "crl.pem", CRLDER: "crl.der"} })})
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	want := map[string][]manifests.RevocationLists{"tls": {{Signer: "example.com/hosts", Path: "crl.pem"}, {Signer: "example.com/hosts", Path: "crl.der", DER: true}}}
	if diff := cmp.Diff(want, pods[0].Lists); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	if chain := pods[0].Spec.Volumes[0].Projected.Sources[0].PodCertificate.CertificateChainPath; chain != "tls.crt" {
		t.Errorf("the certificate is in %q", chain)
	}
}

// A user who does not exist concerns the certificate of that user alone.
func TestUnknownOwner(t *testing.T) {
	pods, err := Pods([]Certificate{
		nginx(func(c *Certificate) { c.Owner, c.Directory = "no-such-user", "/a" }),
		nginx(func(c *Certificate) { c.Group, c.Directory = "no-such-group", "/b" }),
		nginx(nil),
	})
	if len(pods) != 1 || pods[0].Name != "etc-nginx-tls" {
		t.Errorf("%d pods", len(pods))
	}
	for _, want := range []string{
		`certificates[0].owner: this host has no user "no-such-user": create it, or give its number`,
		`certificates[1].group: this host has no group "no-such-group"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestActions(t *testing.T) {
	reload := hook.Program{Signal: "HUP", PIDFile: "/run/nginx.pid"}
	got := Actions([]Certificate{nginx(nil), nginx(func(c *Certificate) { c.Namespace, c.AfterRefresh = "shop", []hook.Program{reload} })})
	if diff := cmp.Diff([]hook.Action{{Pod: "shop/etc-nginx-tls", Program: reload}}, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestErrorsNameTheField(t *testing.T) {
	for _, tt := range []struct {
		reason, want string
		edit         func(*Certificate)
	}{
		{"no signer", "signer: Required", func(c *Certificate) { c.Signer = "" }},
		{"a signer without a domain", "signer: Invalid", func(c *Certificate) { c.Signer = "hosts" }},
		{"no directory", `directory: "" is not the absolute path`, func(c *Certificate) { c.Directory = "" }},
		{"a relative directory", "directory: ", func(c *Certificate) { c.Directory = "tls" }},
		{"all of the host", "directory: ", func(c *Certificate) { c.Directory = "/" }},
		{"no name", "name: ", func(c *Certificate) { c.Name = "Web_1" }},
		{"a namespace", "namespace: ", func(c *Certificate) { c.Namespace = "Shop" }},
		{"a service account", "serviceAccount: ", func(c *Certificate) { c.ServiceAccount = "a b" }},
		{"a DNS name", `dnsNames[1]: "a_b" is not a DNS name`, func(c *Certificate) { c.DNSNames = []string{"a.example.com", "a_b"} }},
		{"two DNS names in one", "dnsNames[0]: ", func(c *Certificate) { c.DNSNames = []string{"a,b"} }},
		{"an address", `ipAddresses[0]: "a" is not an IP address`, func(c *Certificate) { c.IPAddresses = []string{"a"} }},
		{"a key type", "keyType: Unsupported", func(c *Certificate) { c.KeyType = "rsa" }},
		{"too short", "duration: Invalid", func(c *Certificate) { c.Duration.Duration = time.Minute }},
		{"before it begins", "duration: must be 1h or more", func(c *Certificate) { c.Duration.Duration = -time.Hour }},
		{"a path out of the folder", "files.key: Invalid", func(c *Certificate) { c.Files = Files{Key: "../key"} }},
		{"one name for two", "files.bundle: \"a\" is already the name of another file", func(c *Certificate) { c.Files = Files{Key: "a", Bundle: "a"} }},
		{"a name of another file", "files.roots: \"tls.crt\" is already the name of another file", func(c *Certificate) { c.Files = Files{Roots: "tls.crt"} }},
		{"a path of lists", "files.crl: Invalid", func(c *Certificate) { c.Files = Files{CRL: "/crl.pem", CRLDER: "crl.der"} }},
		{"a path of a list", "files.crlDER: Invalid", func(c *Certificate) { c.Files = Files{CRL: "crl.pem", CRLDER: "/crl.der"} }},
		{"a name that annotations cannot have", `files.crlDER: "a b" has a space or a comma`, func(c *Certificate) { c.Files = Files{CRLDER: "a b"} }},
		{"lists as roots", "files.crl: \"a\" is already the name of another file", func(c *Certificate) { c.Files = Files{Roots: "a", CRL: "a"} }},
		{"a decimal mode", "mode: 01200 is not from 0 to 0777: write it in octal", func(c *Certificate) { c.Mode = ptr.To[int32](640) }},
		{"as in chown", `owner: "a:b" is not a name`, func(c *Certificate) { c.Owner = "a:b" }},
		{"an action", "afterRefresh[0].command and signal", func(c *Certificate) { c.AfterRefresh = []hook.Program{{}} }},
	} {
		err := Validate([]Certificate{nginx(func(c *Certificate) { c.Directory = "/first" }), nginx(tt.edit)})
		if err == nil || !strings.HasPrefix(err.Error(), "certificates[1]."+tt.want) {
			t.Errorf("%s: %v, want %s", tt.reason, err, tt.want)
		}
	}
	for _, tt := range []struct {
		want string
		all  []Certificate
	}{
		{"certificates[1].directory: /etc/nginx/tls is already the directory of certificates[0]", []Certificate{nginx(nil), nginx(func(c *Certificate) { c.Name = "other" })}},
		{"certificates[1].name: default/etc-nginx-tls is already the name of certificates[0]", []Certificate{nginx(nil), nginx(func(c *Certificate) { c.Directory = "/etc/nginx-tls" })}},
	} {
		if err := Validate(tt.all); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}
