package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RevocationList describes the certificate revocation list (RFC 5280 section 5) of a CA: all
// its revoked certificates that have not ended. The list itself, in DER, is the subresource
// content. Its name identifies the CA: a CA that is renewed with the same name and key keeps
// it.
//
// +kubebuilder:object:root=true
type RevocationList struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// signerNames are the signers that sign with the CA.
	// +optional
	// +listType=atomic
	SignerNames []string `json:"signerNames,omitempty"`
	// subject is the distinguished name of the CA (RFC 2253).
	Subject string `json:"subject"`
	// caCertificates are the certificate of the CA and of the CAs above it, in PEM.
	CACertificates string `json:"caCertificates"`
	// number is the CRL number. A later list has a greater one.
	Number int64 `json:"number"`
	// thisUpdate is when the list begins to be valid, nextUpdate is when it ends.
	ThisUpdate metav1.Time `json:"thisUpdate"`
	NextUpdate metav1.Time `json:"nextUpdate"`
	// renewBy is when the next list is signed, at the latest.
	RenewBy metav1.Time `json:"renewBy"`
	// entries is the number of certificates in the list.
	Entries int64 `json:"entries"`
	// bytes is the size of the list in DER.
	Bytes int64 `json:"bytes"`
	// sha256 is the SHA-256 digest of the list in DER, in hexadecimal.
	SHA256 string `json:"sha256"`
	// url is where everybody gets the list, by plain HTTP. Certificates name it as CRL
	// distribution point. It is empty if revocation.url of the configuration is.
	// +optional
	URL string `json:"url,omitempty"`
	// current is true if this server has the list that was signed last, and it has not ended.
	Current bool `json:"current"`
	// message is why the list is not current.
	// +optional
	Message string `json:"message,omitempty"`
}

// RevocationListList is a list of RevocationLists.
//
// +kubebuilder:object:root=true
type RevocationListList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RevocationList `json:"items"`
}
