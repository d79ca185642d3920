package sign

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/keystore"
)

const (
	serving   = "kubelet-serving"
	kubelet   = "kubelet-client"
	apiserver = "kube-apiserver-client"
	legacy    = "legacy-unknown"
)

var flagged = map[string]string{
	serving:   certificatesv1.KubeletServingSignerName,
	kubelet:   certificatesv1.KubeAPIServerClientKubeletSignerName,
	apiserver: certificatesv1.KubeAPIServerClientSignerName,
	legacy:    signer.LegacyUnknown,
}

// parse parses a command line with kube-controller-manager's flags: certificate
// and key of each named signer, where "" means all signers.
func parse(t *testing.T, certs, keys []string) Settings {
	t.Helper()
	var line []string
	add := func(kind string, names []string) {
		for _, name := range names {
			prefix := "--cluster-signing-"
			if name != "" {
				prefix += name + "-"
			}
			line = append(line, prefix+kind+"-file="+name+"."+kind)
		}
	}
	add("cert", certs)
	add("key", keys)
	settings := DefaultSettings()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(flags, &settings)
	if err := flags.Parse(line); err != nil {
		t.Fatal(err)
	}
	return settings
}

// TestChoiceOfCA has kube-controller-manager's table: which files a signer
// gets, and which choices are refused.
func TestChoiceOfCA(t *testing.T) {
	const (
		together    = "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time"
		withoutKey  = "cannot specify cert without key"
		withoutCert = "cannot specify key without cert"
	)
	every := []string{serving, kubelet, apiserver, legacy}
	both := func(names ...string) [2][]string { return [2][]string{names, names} }
	type choice struct {
		reason string
		files  [2][]string // certificates, keys
		want   []string    // signers that have a CA; "" is all of them, from the generic one
		err    string
	}
	tests := []choice{
		{reason: "none"},
		{reason: "generic", files: both(""), want: []string{""}},
		{reason: "all specific", files: both(every...), want: every},
		{reason: "one specific: no other gets anything", files: both(serving), want: []string{serving}},
		{reason: "kubelet client", files: both(kubelet), want: []string{kubelet}},
		{reason: "API server client", files: both(apiserver), want: []string{apiserver}},
		{reason: "legacy", files: both(legacy), want: []string{legacy}},
		{reason: "two specific", files: both(kubelet, legacy), want: []string{kubelet, legacy}},
		{reason: "three specific", files: both(serving, kubelet, apiserver), want: []string{serving, kubelet, apiserver}},

		{reason: "generic and specific", files: both("", serving), want: []string{serving}, err: together},
		{reason: "generic and all", files: both("", serving, kubelet, apiserver, legacy), want: every, err: together},
		{reason: "half generic and specific", files: [2][]string{{"", legacy}, {legacy}}, want: []string{legacy}, err: together},
		{reason: "generic and half specific", files: [2][]string{{"", legacy}, {""}}, want: []string{legacy}, err: "cluster-signing-legacy-unknown\": " + withoutKey},

		{reason: "generic certificate alone", files: [2][]string{{""}, nil}, want: []string{""}, err: `"cluster-signing": ` + withoutKey},
		{reason: "generic key alone", files: [2][]string{nil, {""}}, want: []string{""}, err: `"cluster-signing": ` + withoutCert},
		{reason: "several halves: the first one speaks", files: [2][]string{every, nil}, want: every, err: `"cluster-signing-kubelet-serving": ` + withoutKey},
	}
	for _, name := range every {
		tests = append(tests, []choice{
			{reason: name + " without key", files: [2][]string{{name}, nil}, want: []string{name}, err: `"cluster-signing-` + name + `": ` + withoutKey},
			{reason: name + " without cert", files: [2][]string{nil, {name}}, want: []string{name}, err: `"cluster-signing-` + name + `": ` + withoutCert},
			{reason: name + " without key among whole ones", files: [2][]string{every, slices.DeleteFunc(slices.Clone(every), func(s string) bool { return s == name })},
				want: every, err: `"cluster-signing-` + name + `": ` + withoutKey},
		}...)
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			settings := parse(t, tc.files[0], tc.files[1])
			if err := message(settings.Validate()); (err == "") != (tc.err == "") || !strings.Contains(err, tc.err) {
				t.Errorf("error %q, want %q", err, tc.err)
			}
			got, want := map[string]keystore.Settings{}, map[string]keystore.Settings{}
			for short, name := range flagged {
				if ca, _ := settings.CAOf(name); !ca.IsZero() {
					got[short] = ca
				}
				if slices.Contains(tc.want, "") {
					want[short] = expected(tc.files, "")
				} else if slices.Contains(tc.want, short) {
					want[short] = expected(tc.files, short)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("CAs (-want +got):\n%s", diff)
			}
		})
	}
}

func expected(files [2][]string, name string) keystore.Settings {
	var ca keystore.Settings
	if slices.Contains(files[0], name) {
		ca.CertFile = name + ".cert"
	}
	if slices.Contains(files[1], name) {
		ca.KeyFile = name + ".key"
	}
	return ca
}

// A key need not be in a file, and an error names the wrong field.
func TestKeysElsewhere(t *testing.T) {
	tests := []struct {
		reason   string
		settings Settings
		want     string
	}{
		{
			reason: "unknown kind of place", settings: Settings{CA: keystore.Settings{CertFile: "x", Key: "tpm:1"}},
			want: "signing.ca.key: is not a URI of a known kind",
		},
		{
			reason: "without a certificate", settings: Settings{CA: keystore.Settings{Key: "pkcs11:token=ca"}},
			want: `signing.ca: "cluster-signing": cannot specify key without cert`,
		},
		{
			reason: "in two places", want: "signing.signers[1].ca.key: is set in addition to keyFile",
			settings: Settings{Signers: []SignerSettings{{Name: signerName}, {Name: servingSigner, CA: keystore.Settings{CertFile: "x", KeyFile: "x", Key: "pkcs11:token=ca"}}}},
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got := message(tc.settings.withDefaults().Validate())
			if !strings.Contains(got, tc.want) {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
}

// TestFlags checks that a flag overrides only its own field of a file's
// settings.
func TestFlags(t *testing.T) {
	settings := Settings{
		MaxDuration: metaDuration(1),
		Signers:     []SignerSettings{{Name: servingSigner, MinRSABits: 2048, CA: keystore.Settings{CertFile: "file.crt", KeyFile: "file.key"}}},
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(flags, &settings)
	if got := flags.Lookup("cluster-signing-kubelet-serving-key-file").Value.String(); got != "file.key" {
		t.Errorf("the flag's value is %q", got)
	}
	if err := flags.Parse([]string{"--cluster-signing-duration=24h", "--cluster-signing-kubelet-serving-cert-file=flag.crt", "--cluster-signing-legacy-unknown-key-file=legacy.key"}); err != nil {
		t.Fatal(err)
	}
	want := Settings{
		MaxDuration: metaDuration(24 * 60 * 60 * 1e9),
		Signers: []SignerSettings{
			{Name: servingSigner, MinRSABits: 2048, CA: keystore.Settings{CertFile: "flag.crt", KeyFile: "file.key"}},
			{Name: signer.LegacyUnknown, CA: keystore.Settings{KeyFile: "legacy.key"}},
		},
	}
	if diff := cmp.Diff(want, settings); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
