package sign

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/keystore"
)

const servingSigner = certificatesv1.KubeletServingSignerName

func metaDuration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func endpoint(signerName string) webhook.Settings {
	return webhook.Settings{SignerName: signerName, URL: "https://ca.example.com/sign", TokenFile: "t"}
}

func TestSettings(t *testing.T) {
	tests := []struct {
		reason string
		change func(*Settings)
		want   string
	}{
		{reason: "defaults", change: func(*Settings) {}},
		{reason: "nothing said", change: func(s *Settings) { *s = Settings{}.withDefaults() }},
		{reason: "zero is the default, as in kube-controller-manager", change: func(s *Settings) { s.MaxDuration = metaDuration(0) }},
		{reason: "short", change: func(s *Settings) { s.MaxDuration = metaDuration(time.Minute) }},
		{reason: "a signer of its own kind", change: func(s *Settings) {
			s.Signers = []SignerSettings{{Name: servingSigner, MaxDuration: metaDuration(time.Hour), MinRSABits: 4096, Strict: true}}
		}},
		{
			reason: "negative duration", change: func(s *Settings) { s.MaxDuration = metaDuration(-time.Hour) },
			want: "signing.maxDuration: -1h0m0s is too short: must be at least 1m",
		},
		{
			reason: "negative concurrency", change: func(s *Settings) { s.Concurrency = -1 },
			want: "signing.concurrency: -1 must be at least 1",
		},
		{
			reason: "keys that nobody accepts", change: func(s *Settings) { s.MinRSABits = 512 },
			want: "signing.minRSABits: 512 must be from 1024 to 16384",
		},
		{
			reason: "keys that nobody has", change: func(s *Settings) { s.MinRSABits = 16385 },
			want: "signing.minRSABits: 16385 must be from 1024 to 16384",
		},
		{
			reason: "a signer's duration", change: func(s *Settings) {
				s.Signers = []SignerSettings{{Name: signerName}, {Name: servingSigner, MaxDuration: metaDuration(time.Second)}}
			},
			want: "signing.signers[1].maxDuration: 1s is too short: must be at least 1m",
		},
		{
			reason: "a signer's keys", change: func(s *Settings) { s.Signers = []SignerSettings{{Name: servingSigner, MinRSABits: 1}} },
			want: "signing.signers[0].minRSABits: 1 must be from 1024 to 16384",
		},
		{reason: "endpoints", change: func(s *Settings) {
			s.CA = keystore.Settings{CertFile: "c", KeyFile: "k"} // for the other signers
			s.Webhooks = []webhook.Settings{endpoint("example.com/*"), endpoint("example.com/a"), endpoint(servingSigner)}
		}},
		{
			reason: "an endpoint for nobody", change: func(s *Settings) { s.Webhooks = []webhook.Settings{endpoint("")} },
			want: `signing.webhooks[0].signerName: "" must be a signer such as example.com/my-signer, or example.com/* for all of a domain`,
		},
		{
			reason: "an endpoint for all signers", change: func(s *Settings) { s.Webhooks = []webhook.Settings{endpoint("*")} },
			want: `signing.webhooks[0].signerName: "*" must be a signer such as example.com/my-signer, or example.com/* for all of a domain`,
		},
		{
			reason: "an endpoint for some of a domain", change: func(s *Settings) { s.Webhooks = []webhook.Settings{endpoint("example.com/a*")} },
			want: `signing.webhooks[0].signerName: "example.com/a*" must be a signer such as example.com/my-signer, or example.com/* for all of a domain`,
		},
		{
			reason: "two endpoints for one signer", change: func(s *Settings) {
				s.Webhooks = []webhook.Settings{endpoint("example.com/*"), endpoint("example.com/a"), endpoint("example.com/*")}
			},
			want: `signing.webhooks[2].signerName: "example.com/*" is already used by signing.webhooks[0]`,
		},
		{
			reason: "an endpoint that cannot work", change: func(s *Settings) { s.Webhooks = []webhook.Settings{{SignerName: "example.com/a"}} },
			want: "signing.webhooks[0].url: is missing",
		},
		{
			reason: "an endpoint for a signer with a CA", change: func(s *Settings) {
				s.Signers = []SignerSettings{{Name: servingSigner, CA: keystore.Settings{CertFile: "c", KeyFile: "k"}}}
				s.Webhooks = []webhook.Settings{endpoint("kubernetes.io/*")}
			},
			want: "signing.signers[0].ca: kubernetes.io/kubelet-serving is delegated by signing.webhooks[0]: remove one of the two",
		},
		{
			reason: "another's signer", change: func(s *Settings) { s.Signers = []SignerSettings{{Name: "example.com/x"}} },
			want: `signing.signers[0].name: unknown signer "example.com/x": the signers are kubernetes.io/kube-apiserver-client, ` +
				`kubernetes.io/kube-apiserver-client-kubelet, kubernetes.io/kubelet-serving, kubernetes.io/legacy-unknown`,
		},
		{
			reason: "a signer twice", change: func(s *Settings) { s.Signers = []SignerSettings{{Name: servingSigner}, {Name: servingSigner}} },
			want: "signing.signers[1].name: kubernetes.io/kubelet-serving is listed twice",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			settings := DefaultSettings()
			tc.change(&settings)
			if got := message(settings.Validate()); got != tc.want {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
	if got := DefaultSettings().MaxDuration.Duration; got != 8760*time.Hour {
		t.Errorf("default maximum is %v, want a year", got)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Settings of one signer apply only to it; otherwise the settings for all
// apply.
func TestSettingsOfOneSigner(t *testing.T) {
	settings := Settings{
		MaxDuration: metaDuration(24 * time.Hour),
		Strict:      true,
		Signers: []SignerSettings{
			{Name: servingSigner, MaxDuration: metaDuration(48 * time.Hour)},
			{Name: signerName, MinRSABits: 3072},
		},
	}
	want := []SignerSettings{
		{Name: signerName, MaxDuration: metaDuration(24 * time.Hour), MinRSABits: 3072, Strict: true},
		{Name: certificatesv1.KubeAPIServerClientKubeletSignerName, MaxDuration: metaDuration(24 * time.Hour), MinRSABits: 2048, Strict: true},
		{Name: servingSigner, MaxDuration: metaDuration(48 * time.Hour), MinRSABits: 2048, Strict: true},
		{Name: signer.LegacyUnknown, MaxDuration: metaDuration(24 * time.Hour), MinRSABits: 2048, Strict: true},
	}
	if diff := cmp.Diff(want, settings.All()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want[0] = SignerSettings{Name: signerName, MaxDuration: metaDuration(8760 * time.Hour), MinRSABits: 2048}
	if diff := cmp.Diff(want[0], Settings{}.For(signerName)); diff != "" {
		t.Errorf("nothing said: -want +got:\n%s", diff)
	}
}
