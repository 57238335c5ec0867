package keyspace

import "bytes"

// SlotOf returns the hash slot of a key: CRC16 (XMODEM) of the key, or of its
// hash tag if it has one, modulo 16384. A tag is what stands between the first
// '{' and the first '}' after it, if that is not empty.
func SlotOf(key []byte) uint16 {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if n := bytes.IndexByte(key[open+1:], '}'); n > 0 {
			key = key[open+1 : open+1+n]
		}
	}
	// Four bytes at a time, each through a table of its own: the steps of one
	// round do not wait for each other.
	var crc uint16
	for ; len(key) >= 4; key = key[4:] {
		x := crc ^ (uint16(key[0])<<8 | uint16(key[1]))
		crc = crcTable[3][x>>8] ^ crcTable[2][byte(x)] ^ crcTable[1][key[2]] ^ crcTable[0][key[3]]
	}
	for _, c := range key {
		crc = crc<<8 ^ crcTable[0][byte(crc>>8)^c]
	}
	return crc % Slots
}

// crcTable[n][c] is the checksum of the byte c followed by n zero bytes.
var crcTable = func() (t [4][256]uint16) {
	for i := range t[0] {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[0][i] = crc
	}
	for n := 1; n < len(t); n++ {
		for i, crc := range t[n-1] {
			t[n][i] = crc<<8 ^ t[0][crc>>8]
		}
	}
	return t
}()
