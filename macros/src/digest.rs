//! Digests of functions: they show that a function has changed.

use std::fmt::Write as _;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ItemFn;

/// Returns the digest of a function: of its signature and its body, without its attributes and its
/// visibility. Comments and white space do not matter.
pub(crate) fn of_function(function: &ItemFn) -> String {
    let mut tokens = function.sig.to_token_stream();
    function.block.to_tokens(&mut tokens);
    let mut text = String::new();
    write_tokens(tokens, &mut text);
    sha256(text.as_bytes())
}

/// Writes tokens with one line break after each. The text that the compiler prints for a token
/// stream depends on the version of the compiler; this text does not.
fn write_tokens(tokens: TokenStream, out: &mut String) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(\n", ")\n"),
                    Delimiter::Brace => ("{\n", "}\n"),
                    Delimiter::Bracket => ("[\n", "]\n"),
                    Delimiter::None => ("", ""),
                };
                out.push_str(open);
                write_tokens(group.stream(), out);
                out.push_str(close);
            }
            TokenTree::Ident(ident) => {
                out.push_str(&ident.to_string());
                out.push('\n');
            }
            TokenTree::Punct(punct) => {
                out.push(punct.as_char());
                // `&&` and `& &` are different programs, `?;` and `? ;` are the same one.
                let operator = match tokens.peek() {
                    Some(TokenTree::Punct(next)) if punct.spacing() == Spacing::Joint => {
                        OPERATORS.contains(&[punct.as_char(), next.as_char()])
                    }
                    _ => false,
                };
                if !operator {
                    out.push('\n');
                }
            }
            TokenTree::Literal(literal) => {
                out.push_str(&literal.to_string());
                out.push('\n');
            }
        }
    }
}

/// The pairs of characters that are one operator, or the beginning of one.
const OPERATORS: [[char; 2]; 21] = [
    ['&', '&'],
    ['|', '|'],
    ['<', '<'],
    ['>', '>'],
    ['=', '='],
    ['!', '='],
    ['<', '='],
    ['>', '='],
    ['-', '>'],
    ['=', '>'],
    ['.', '.'],
    [':', ':'],
    ['+', '='],
    ['-', '='],
    ['*', '='],
    ['/', '='],
    ['%', '='],
    ['^', '='],
    ['&', '='],
    ['|', '='],
    ['.', '='],
];

/// The SHA-256 digest as 64 lower-case hexadecimal digits (FIPS 180-4).
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let mut message = bytes.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend((bytes.len() as u64 * 8).to_be_bytes());
    let mut state = INITIAL;
    for block in message.chunks_exact(64) {
        let mut words = [0u32; 64];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for i in 16..64 {
            let (a, b) = (words[i - 15], words[i - 2]);
            let small = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let great = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            words[i] = words[i - 16]
                .wrapping_add(small)
                .wrapping_add(words[i - 7])
                .wrapping_add(great);
        }
        let mut s = state;
        for (word, constant) in words.iter().zip(ROUNDS) {
            let [a, b, c, d, e, f, g, h] = s;
            let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let first = h
                .wrapping_add(sum)
                .wrapping_add(choice)
                .wrapping_add(constant)
                .wrapping_add(*word);
            let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let majority = (a & b) ^ (a & c) ^ (b & c);
            let second = sum.wrapping_add(majority);
            s = [
                first.wrapping_add(second),
                a,
                b,
                c,
                d.wrapping_add(first),
                e,
                f,
                g,
            ];
        }
        for (word, add) in state.iter_mut().zip(s) {
            *word = word.wrapping_add(add);
        }
    }
    state.iter().fold(String::new(), |mut text, word| {
        let _ = write!(text, "{word:08x}");
        text
    })
}

const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

const ROUNDS: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the standard, and lengths around the end of a block.
    #[test]
    fn sha256_returns_the_known_digests() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b""), empty);
        let two = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        let message = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(sha256(message), two);
        let a55 = "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318";
        assert_eq!(sha256(&[b'a'; 55]), a55);
        let a64 = "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb";
        assert_eq!(sha256(&[b'a'; 64]), a64);
    }

    fn digest(text: &str) -> String {
        of_function(&syn::parse_str(text).expect("a function"))
    }

    #[test]
    fn only_tokens_of_signature_and_body_matter() {
        let plain = digest("fn f(a: i64) -> i64 { a + 1 }");
        let dressed =
            "/// Adds.\n#[inline]\npub fn f(a: i64)\n-> i64 { /* one */ a  +  1 // more\n}";
        assert_eq!(digest(dressed), plain);
        assert_eq!(
            digest("fn f() -> Option<()> { g()?; Some(()) }"),
            digest("fn f() -> Option<()> { g() ? ; Some(()) }")
        );
        for other in [
            "fn g(a: i64) -> i64 { a + 1 }",
            "fn f(a: i64) -> i64 { a + 2 }",
            "fn f(b: i64) -> i64 { b + 1 }",
            "fn f(a: i64) -> i64 { (a + 1) }",
            "fn f(a: i64) -> i64 { a + 1; }",
        ] {
            assert_ne!(digest(other), plain, "{other}");
        }
        // White space within a text is part of the text.
        assert_ne!(
            digest("fn f() -> &'static str { \"a b\" }"),
            digest("fn f() -> &'static str { \"a  b\" }")
        );
        assert_ne!(
            digest("fn f(a: bool) -> bool { a && a }"),
            digest("fn f(a: bool) -> bool { a & &a }")
        );
    }
}
