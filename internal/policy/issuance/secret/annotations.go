package secret

import (
	"crypto/x509"
	"encoding/csv"
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
)

// describe returns the annotations with the names in a certificate: the usual
// ones always, the others only if they are not empty.
func describe(cert *x509.Certificate) map[string]string {
	annotations := map[string]string{
		cmv1.CommonNameAnnotationKey: cert.Subject.CommonName,
		cmv1.AltNamesAnnotationKey:   strings.Join(cert.DNSNames, ","),
		cmv1.IPSANAnnotationKey:      join(cert.IPAddresses),
		cmv1.URISANAnnotationKey:     join(cert.URIs),
	}
	subject := cert.Subject
	for key, values := range map[string][]string{
		cmv1.EmailsAnnotationKey:                     cert.EmailAddresses,
		cmv1.SubjectOrganizationsAnnotationKey:       subject.Organization,
		cmv1.SubjectOrganizationalUnitsAnnotationKey: subject.OrganizationalUnit,
		cmv1.SubjectCountriesAnnotationKey:           subject.Country,
		cmv1.SubjectProvincesAnnotationKey:           subject.Province,
		cmv1.SubjectLocalitiesAnnotationKey:          subject.Locality,
		cmv1.SubjectPostalCodesAnnotationKey:         subject.PostalCode,
		cmv1.SubjectStreetAddressesAnnotationKey:     subject.StreetAddress,
	} {
		if len(values) > 0 {
			annotations[key] = quoted(values)
		}
	}
	if subject.SerialNumber != "" {
		annotations[cmv1.SubjectSerialNumberAnnotationKey] = subject.SerialNumber
	}
	return annotations
}

func join[T fmt.Stringer](values []T) string {
	var texts []string
	for _, value := range values {
		texts = append(texts, value.String())
	}
	return strings.Join(texts, ",")
}

// quoted returns a record of RFC 4180: values with commas are quoted.
func quoted(values []string) string {
	var text strings.Builder
	w := csv.NewWriter(&text)
	_ = w.Write(values) // writing to a strings.Builder never fails
	w.Flush()
	return strings.TrimSuffix(text.String(), "\n")
}
