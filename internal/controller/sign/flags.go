package sign

import (
	"github.com/spf13/pflag"

	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/process/duration"
)

// AddFlags adds kube-controller-manager's flags for signing to flags. They
// write to s.
func AddFlags(flags *pflag.FlagSet, s *Settings) {
	duration.Var(flags, &s.MaxDuration.Duration, "cluster-signing-duration", s.MaxDuration.Duration,
		"Longest lifetime of a certificate, and the lifetime if the request sets none.")
	flags.StringVar(&s.CA.CertFile, "cluster-signing-cert-file", s.CA.CertFile,
		"PEM file with the CA certificate for all signers of kubernetes.io, followed by its chain unless it is a root.")
	flags.StringVar(&s.CA.KeyFile, "cluster-signing-key-file", s.CA.KeyFile,
		"PEM file with the key of --cluster-signing-cert-file.")
	for _, name := range shortNames {
		prefix := "cluster-signing-" + name.short
		flags.Var(fileFlag{s, name.signerName, func(ca *keystore.Settings) *string { return &ca.CertFile }}, prefix+"-cert-file",
			"PEM file with the CA certificate of the signer "+name.signerName+" alone. Not together with --cluster-signing-cert-file.")
		flags.Var(fileFlag{s, name.signerName, func(ca *keystore.Settings) *string { return &ca.KeyFile }}, prefix+"-key-file",
			"PEM file with the key of --"+prefix+"-cert-file.")
	}
}

// fileFlag is a file of one signer's own CA.
type fileFlag struct {
	settings   *Settings
	signerName string
	field      func(*keystore.Settings) *string
}

var _ pflag.Value = fileFlag{}

// Set implements pflag.Value.
func (f fileFlag) Set(file string) error {
	i := f.settings.index(f.signerName)
	if i < 0 {
		i = len(f.settings.Signers)
		f.settings.Signers = append(f.settings.Signers, SignerSettings{Name: f.signerName})
	}
	*f.field(&f.settings.Signers[i].CA) = file
	return nil
}

// String implements pflag.Value.
func (f fileFlag) String() string {
	if f.settings == nil {
		return ""
	}
	if i := f.settings.index(f.signerName); i >= 0 {
		return *f.field(&f.settings.Signers[i].CA)
	}
	return ""
}

// Type implements pflag.Value.
func (fileFlag) Type() string { return "string" }
