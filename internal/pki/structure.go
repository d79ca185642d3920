package pki

import (
	"encoding/asn1"
	"errors"
	"fmt"
)

// The attributes of a request that have extensions (RFC 2985 section 5.4.2).
// The second is Microsoft's, which OpenSSL reads as well.
var (
	oidExtensionRequest    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 14}
	oidMicrosoftExtensions = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 14}
)

// strictStructure checks the structures that the standard library reads
// leniently: it ignores attributes that it cannot read, further values of
// attributes, and further members of structures. Other programs need not.
func (r *Request) strictStructure() error {
	if _, err := structure(r.Raw, 3, 3); err != nil {
		return fmt.Errorf("the request %w", err)
	}
	info, err := structure(r.RawTBSCertificateRequest, 3, 4)
	if err != nil {
		return fmt.Errorf("the request %w", err)
	}
	if err := strictName(r.RawSubject); err != nil {
		return fmt.Errorf("the request's subject %w", err)
	}
	if len(info) < 4 {
		return nil
	}
	if err := strictAttributes(info[3].Bytes); err != nil {
		return fmt.Errorf("the request's attributes: %w", err)
	}
	return nil
}

// strictAttributes checks that only one list has all extensions.
func strictAttributes(der []byte) error {
	attributes, err := elements(der)
	if err != nil {
		return err
	}
	lists := 0
	for _, attribute := range attributes {
		id, values, err := splitAttribute(attribute)
		switch {
		case err != nil:
			return err
		case id.Equal(oidMicrosoftExtensions):
			return fmt.Errorf("extensions must be in the attribute %v, not in %v", oidExtensionRequest, oidMicrosoftExtensions)
		case !id.Equal(oidExtensionRequest):
			continue // signers do not copy it
		}
		if lists += len(values); lists != 1 {
			return errors.New("there must be one list of extensions")
		}
		extensions, err := elements(values[0].Bytes)
		if err != nil {
			return err
		}
		for _, extension := range extensions {
			if _, err := structure(extension.FullBytes, 2, 3); err != nil {
				return fmt.Errorf("an extension %w", err)
			}
		}
	}
	return nil
}

func splitAttribute(attribute asn1.RawValue) (asn1.ObjectIdentifier, []asn1.RawValue, error) {
	members, err := structure(attribute.FullBytes, 2, 2)
	if err != nil {
		return nil, nil, fmt.Errorf("one %w", err)
	}
	id, err := parse[asn1.ObjectIdentifier](members[0].FullBytes)
	if err != nil {
		return nil, nil, err
	}
	values, err := elements(members[1].Bytes)
	if err != nil || !isConstructed(members[1], asn1.TagSet) || len(values) == 0 {
		return nil, nil, fmt.Errorf("the values of %v must be in a SET", id)
	}
	return id, values, nil
}

// strictName checks that a name is a sequence of sets of attributes, each with
// one value.
func strictName(der []byte) error {
	name, err := parse[asn1.RawValue](der)
	if err != nil || !isConstructed(name, asn1.TagSequence) {
		return errMalformed
	}
	sets, err := elements(name.Bytes)
	if err != nil {
		return err
	}
	for _, set := range sets {
		attributes, err := elements(set.Bytes)
		if err != nil || !isConstructed(set, asn1.TagSet) || len(attributes) == 0 {
			return errMalformed
		}
		for _, attribute := range attributes {
			if _, err := structure(attribute.FullBytes, 2, 2); err != nil {
				return err
			}
		}
	}
	return nil
}

// structure returns the members of a SEQUENCE, which must have from least to most members.
func structure(der []byte, least, most int) ([]asn1.RawValue, error) {
	sequence, err := parse[asn1.RawValue](der)
	if err != nil || !isConstructed(sequence, asn1.TagSequence) {
		return nil, errMalformed
	}
	members, err := elements(sequence.Bytes)
	if err != nil || len(members) < least || len(members) > most {
		return nil, errMalformed
	}
	return members, nil
}

func isConstructed(v asn1.RawValue, tag int) bool {
	return v.Class == asn1.ClassUniversal && v.Tag == tag && v.IsCompound
}

// elements returns the values that follow each other in der.
func elements(der []byte) ([]asn1.RawValue, error) {
	var list []asn1.RawValue
	for len(der) > 0 {
		var one asn1.RawValue
		rest, err := asn1.Unmarshal(der, &one)
		if err != nil {
			return nil, errMalformed
		}
		list, der = append(list, one), rest
	}
	return list, nil
}
