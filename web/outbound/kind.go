package outbound

import (
	"encoding/binary"
	"net/netip"
)

// kind is what an address is for.
type kind string

const (
	public   kind = "public"
	internal kind = "inside, not public" // this machine, a private network, a carrier's
	local    kind = "link-local or of a metadata service"
	special  kind = "for special use" // multicast, unspecified, reserved
)

// kindOf sorts an address. One that carries an IPv4 address in itself is what
// that address is.
func kindOf(ip netip.Addr) kind {
	ip = ip.Unmap().WithZone("")
	if inner, ok := carried(ip); ok {
		ip = inner
	}
	switch {
	case in(ip, "169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32"):
		return local // the last four are the metadata services of clouds
	case ip.IsUnspecified() || ip.IsMulticast() || in(ip, "0.0.0.0/8", "240.0.0.0/4", "192.0.0.0/24", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "100::/64"):
		return special
	case ip.IsLoopback() || ip.IsPrivate() || in(ip, "100.64.0.0/10", "198.18.0.0/15", "fec0::/10"):
		return internal
	}
	return public
}

func in(ip netip.Addr, networks ...string) bool {
	for _, n := range networks {
		if netip.MustParsePrefix(n).Contains(ip) {
			return true
		}
	}
	return false
}

// carried is the IPv4 address that NAT64, 6to4, Teredo or an IPv4-compatible
// address leads to.
func carried(ip netip.Addr) (netip.Addr, bool) {
	if !ip.Is6() {
		return ip, false
	}
	b := ip.As16()
	switch {
	case in(ip, "64:ff9b::/96", "64:ff9b:1::/48"), in(ip, "::/96") && !ip.IsLoopback() && !ip.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:])), true
	case in(ip, "2002::/16"):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case in(ip, "2001::/32"): // Teredo: the client's address, inverted
		var v4 [4]byte
		binary.BigEndian.PutUint32(v4[:], ^binary.BigEndian.Uint32(b[12:]))
		return netip.AddrFrom4(v4), true
	}
	return ip, false
}
